// Command fenceproxy makes databases enforce fencing tokens: it installs the
// fence, shows and operates what resources remember, runs programs under a
// lock, and demonstrates it.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

func main() {
	p := program{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, environ: os.Environ, executable: os.Executable,
		terminal: func() bool { return isTerminal(os.Stdin) },
		colour: func(out *os.File) bool {
			return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		},
	}
	ctx, stop := untilSignal(context.Background())
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// program is what a run of fenceproxy has to do with the world. Nothing below
// it looks at the process's own streams and environment.
type program struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	env func(string) string
	// environ is the whole environment, for programs that get it too.
	environ func() []string
	// executable is the path of this program, for processes that it starts.
	executable func() (string, error)
	// terminal says whether somebody can answer on in.
	terminal func() bool
	// colour says whether a stream is a terminal that shows colours.
	colour func(*os.File) bool
}

// run runs one command line, tells what went wrong, and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return p.tell(ctx, root.ExecuteContext(ctx))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "stopped by " + unix.SignalName(e.signal) }

// untilSignal returns a context that the first SIGINT or SIGTERM ends. The
// second does what signals do by themselves: it ends the process.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			signal.Stop(signals)
			if s, ok := s.(syscall.Signal); ok {
				cancel(signalError{s})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		signal.Stop(signals)
	}
}
