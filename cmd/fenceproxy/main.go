// Command fenceproxy makes databases enforce fencing tokens: it installs the
// fence, shows and operates what resources remember, runs programs under a
// lock, and demonstrates it.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func main() {
	log.SetOutput(io.Discard) // net/http writes there what is in nobody's error: standard error is ours
	p := program{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, environ: os.Environ, executable: os.Executable,
		terminal: func() bool { return isTerminal(os.Stdin) },
		colour: func(out *os.File) bool {
			return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		},
	}
	ctx, in := untilSignal(context.Background())
	p.signals = in
	code := p.run(ctx, os.Args[1:], all()...)
	in.close()
	os.Exit(code)
}

// program is what a run of fenceproxy has to do with the world. Nothing below
// it looks at the process's own streams and environment.
type program struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	env func(string) string
	// signals are those to this process, for commands that take them over.
	signals *inbox
	// environ is the whole environment, for programs that get it too.
	environ func() []string
	// executable is the path of this program, for processes that it starts.
	executable func() (string, error)
	// terminal says whether somebody can answer on in.
	terminal func() bool
	// colour says whether a stream is a terminal that shows colours.
	colour func(*os.File) bool
}

// run runs one command line, whose commands are those given and what is here, tells what went wrong, and returns the exit code.
func (p *program) run(ctx context.Context, args []string, commands ...func(*program) *cobra.Command) int {
	root := p.root(commands)
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return p.tell(ctx, root.ExecuteContext(ctx))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// all are the commands with rooms of their own.
func all() []func(*program) *cobra.Command {
	return []func(*program) *cobra.Command{
		(*program).demo, (*program).demoWorker, (*program).demoCleaner, (*program).doctor, (*program).exec, (*program).execWarden, (*program).lock,
		(*program).migrate, (*program).marks, (*program).s3, (*program).serve,
	}
}
