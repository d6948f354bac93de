package statement

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// OwnPrefix is what the names of the statements begin with that the proxy prepares
// for itself.
const OwnPrefix = "_fence_"

// LongestName is what the server cuts names to, in bytes.
const LongestName = 63

// nameIn reads the name of a prepared statement from a token as the server does,
// if that is easily done.
func nameIn(text string, t sqltext.Token) (name string, ok bool) {
	name = text[t.Start:t.Stop]
	switch {
	case !ASCII(name):
		return "", false
	case t.Kind == sqltext.Word:
		name = strings.ToLower(name)
	case t.Kind != sqltext.QuotedWord, len(name) < 2:
		return "", false
	default:
		if name = name[1 : len(name)-1]; strings.Contains(name, `"`) {
			return "", false
		}
	}
	return strings.Clone(name), len(name) <= LongestName // it is kept longer than the text
}

// droppedName is the name in a DEALLOCATE, "" if that drops all or is not easily
// read.
func droppedName(text string) string {
	scanner := sqltext.NewScanner(text, sqltext.Dialect{})
	scanner.Next()
	t := scanner.Next()
	name, ok := nameIn(text, t)
	if !ok || scanner.Next().Kind != sqltext.End || t.Kind == sqltext.Word && name == "all" {
		return ""
	}
	return name
}

// executedName is the name in an EXECUTE, EscapedName or UnreadName if it is not
// easily read.
func executedName(text string) string {
	scanner := sqltext.NewScanner(text, sqltext.Dialect{})
	scanner.Next()
	t := scanner.Next()
	name, ok := nameIn(text, t)
	switch next := scanner.Next(); {
	case next.Kind == sqltext.Symbol && text[next.Start] == '&':
		return EscapedName
	case !ok || next.Kind != sqltext.End && text[next.Start] != '(':
		return UnreadName
	}
	return name
}

// No names that a statement can have.
const (
	// EscapedName stands for one whose letters are written as numbers.
	EscapedName = "\x00&"
	// UnreadName stands for one that has letters beyond ASCII, or quotes in it, or is
	// too long.
	UnreadName = "\x00"
)

// ASCII reports whether all letters of a text are.
func ASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}
