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

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/demo"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/doctor"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/execute"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/lock"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/marks"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/migrate"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/s3"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/serve"
)

func main() {
	log.SetOutput(io.Discard) // net/http writes there what is in nobody's error: standard error is ours
	p := cli.Program{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Environ: os.Environ, Executable: os.Executable,
		Terminal: func() bool { return cli.IsTerminal(os.Stdin) },
		Colour: func(out *os.File) bool {
			return cli.IsTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		},
	}
	ctx, in := cli.UntilSignal(context.Background())
	p.Signals = in
	code := p.Run(ctx, os.Args[1:], commands()...)
	in.Close()
	os.Exit(code)
}

// commands are those that make up the program, some of them for processes that
// it starts itself.
func commands() []func(*cli.Program) *cobra.Command {
	return []func(*cli.Program) *cobra.Command{
		demo.Command, demo.Worker, demo.Cleaner,
		doctor.Command,
		execute.Command, execute.Warden,
		lock.Command,
		marks.Command,
		migrate.Command,
		s3.Command,
		serve.Command,
	}
}
