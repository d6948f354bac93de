package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// commands are what the program has in the tests of a package.
var commands []func(*program) *cobra.Command

func TestMain(m *testing.M) { mainOf(m, all()...) }

// mainOf runs the tests of a package; the program has these commands in them.
func mainOf(m *testing.M, has ...func(*program) *cobra.Command) {
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

// outcome is what a run of the program left.
type outcome struct {
	code     int
	out, err string
}

// invocation is a run of the program inside this process.
type invocation struct {
	args     []string
	env      map[string]string
	in       string
	terminal bool // somebody sits at in
}

func (i invocation) run(ctx context.Context) outcome {
	var out, err bytes.Buffer
	p := program{
		in: strings.NewReader(i.in), out: &out, err: &err,
		env:     func(name string) string { return i.env[name] },
		environ: i.environ,
		// Processes belong to the tests of the built program.
		executable: func() (string, error) { return "", errors.New("no processes in this test") },
		terminal:   func() bool { return i.terminal },
		colour:     func(*os.File) bool { return false },
	}
	code := p.run(ctx, i.args, commands...)
	return outcome{code, out.String(), err.String()}
}

func (i invocation) environ() []string {
	var all []string
	for name, value := range i.env {
		all = append(all, name+"="+value)
	}
	return all
}

func run(t *testing.T, args ...string) outcome {
	t.Helper()
	return invocation{args: args}.run(t.Context())
}

// want ends the test unless the run ended with code and, if that is not 0,
// with one line on standard error that contains all of words.
func (o outcome) want(t *testing.T, code int, words ...string) outcome {
	t.Helper()
	if o.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", o.code, code, o.out, o.err)
	}
	if code != exitOK {
		if strings.Count(o.err, "\n") != 1 || !strings.HasPrefix(o.err, "fenceproxy: ") {
			t.Errorf("stderr is not one line of ours:\n%s", o.err)
		}
	}
	for _, word := range words {
		if !strings.Contains(o.err, word) {
			t.Errorf("stderr has no %q:\n%s", word, o.err)
		}
	}
	return o
}
