// Package clitest runs fenceproxy in tests: inside their process, or built as
// what people run.
package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Nowhere is the URL of a database that does not answer.
const Nowhere = "postgres://u:s3cret@127.0.0.1:1/d?connect_timeout=5"

// commands are what the program has in the tests of a package.
var commands []func(*cli.Program) *cobra.Command //nolint:gochecknoglobals // Main sets it, before there are tests

// Main runs the tests of a package; the program has these commands in them.
func Main(m *testing.M, has ...func(*cli.Program) *cobra.Command) {
	commands = has
	flag.Parse()
	// The test binary must never be taken for the program: a demo that starts
	// it as a worker would run all tests again, demo included, without end.
	if flag.NArg() > 0 {
		panic("this is a test binary, not fenceproxy: " + flag.Arg(0))
	}
	// A program ignores what its parent does: in a job of a script, or under
	// nohup, none of those that the tests start could be told to end.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(testenv.Run(m))
}

// Outcome is what a run of the program left.
type Outcome struct {
	Code     int
	Out, Err string
}

// Invocation is a run of the program inside this process.
type Invocation struct {
	Args     []string
	Env      map[string]string
	In       string
	Terminal bool // somebody sits at in
}

// Run runs the program.
func (i Invocation) Run(ctx context.Context) Outcome {
	var out, err bytes.Buffer
	p := cli.Program{
		In: strings.NewReader(i.In), Out: &out, Err: &err,
		Env:     func(name string) string { return i.Env[name] },
		Environ: i.Environ,
		// Processes belong to the tests of the built program.
		Executable: func() (string, error) { return "", errors.New("no processes in this test") },
		Terminal:   func() bool { return i.Terminal },
		Colour:     func(*os.File) bool { return false },
	}
	code := p.Run(ctx, i.Args, commands...)
	return Outcome{code, out.String(), err.String()}
}

// Environ is Env as a process has it.
func (i Invocation) Environ() []string {
	var all []string
	for name, value := range i.Env {
		all = append(all, name+"="+value)
	}
	return all
}

// Run runs the program with an empty environment.
func Run(t *testing.T, args ...string) Outcome {
	t.Helper()
	return Invocation{Args: args}.Run(t.Context())
}

// Want ends the test unless the run ended with code and, if that is not 0,
// with one line on standard error that contains all of words.
func (o Outcome) Want(t *testing.T, code int, words ...string) Outcome {
	t.Helper()
	if o.Code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", o.Code, code, o.Out, o.Err)
	}
	if code != cli.ExitOK {
		if strings.Count(o.Err, "\n") != 1 || !strings.HasPrefix(o.Err, "fenceproxy: ") {
			t.Errorf("stderr is not one line of ours:\n%s", o.Err)
		}
	}
	for _, word := range words {
		if !strings.Contains(o.Err, word) {
			t.Errorf("stderr has no %q:\n%s", word, o.Err)
		}
	}
	return o
}

// Decode reads the one line of JSON that a command printed; into has all its keys.
func Decode(t *testing.T, text string, into any) {
	t.Helper()
	if strings.Count(text, "\n") != 1 {
		t.Errorf("JSON output is not one line:\n%s", text)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("decode %q: %v", text, err)
	}
}

// Text is what a file has.
func Text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Must ends the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
