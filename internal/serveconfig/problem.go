package serveconfig

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one mistake in a configuration.
type Problem struct { //nolint:errname // warnings are problems too
	// Where is its place: file:line:column, file, or the name of a flag.
	Where string
	// Key is the path of the key, as in postgres[0].listen; "" for what is not a
	// matter of one key.
	Key string
	// Text is what is wrong, and what would be right.
	Text string

	line, column int // of a file, to sort by
	err          error
}

// Error puts all of it into one line.
func (p *Problem) Error() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{p.Where, p.Key, p.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Unwrap is the error that Config.Problem was given for its text, if any.
func (p *Problem) Unwrap() error { return p.err }

// Problems are all mistakes of a configuration, in the order of their places as
// far as the file could be read.
type Problems []*Problem //nolint:errname // see Problem

// Error has one line for each of them.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap are the mistakes one by one.
func (p Problems) Unwrap() []error {
	all := make([]error, len(p))
	for i, problem := range p {
		all[i] = problem
	}
	return all
}

// Problem is a mistake that shows when the configuration is used: a port that
// is taken, a file that is not there. Key is the path of the key.
func (c *Config) Problem(key, format string, args ...any) *Problem {
	where, flag := c.place(key)
	if flag {
		key = ""
	}
	err := fmt.Errorf(format, args...)
	return &Problem{Where: where, Key: key, Text: err.Error(), err: errors.Unwrap(err)}
}

// place is where key is given, or else the nearest thing around it that is.
func (c *Config) place(key string) (where string, flag bool) {
	for at := key; at != ""; at = parent(at) {
		if where, ok := c.where[at]; ok {
			return where, c.file == ""
		}
	}
	return c.file, false
}

// parent is the path around a path, "" for the whole.
func parent(key string) string {
	return key[:max(0, strings.LastIndexAny(key, ".["))]
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
