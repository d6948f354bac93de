// Package cli is what all commands of fenceproxy have in common: the streams
// and the environment that they run in, their exit codes, and how they print.
package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Program is what a run of fenceproxy has to do with the world. Nothing below
// it looks at the process's own streams and environment.
type Program struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Env func(string) string
	// Signals are those to this process, for commands that take them over.
	Signals *Inbox
	// Environ is the whole environment, for programs that get it too.
	Environ func() []string
	// Executable is the path of this program, for processes that it starts.
	Executable func() (string, error)
	// Terminal says whether somebody can answer on in.
	Terminal func() bool
	// Colour says whether a stream is a terminal that shows colours.
	Colour func(*os.File) bool
}

// Run runs one command line, of a program with these commands and those of this
// package, tells what went wrong, and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string, commands ...func(*Program) *cobra.Command) int {
	root := p.root(commands)
	root.SetArgs(args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return p.Tell(ctx, root.ExecuteContext(ctx))
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
