// Package execute is the command exec, which runs a program under a lock.
package execute

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/child"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
)

// errand is what exec has to do.
type errand struct {
	target    *lockurl.Target
	resource  string
	shared    bool
	ttl       time.Duration
	wait      time.Duration // below 0: for ever
	claims    []claimTarget
	claimWait time.Duration
	evict     bool
	s3        string // URL of the S3 proxy, "" for none
	print     bool
	path      string // of the program
	args      []string
}

// Command is fenceproxy exec.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).exec() }

// Warden is the process that exec starts beside its program: it ends what is
// left of it when exec is gone. It is not for use by hand.
func Warden(p *cli.Program) *cobra.Command { return (&program{p}).warden() }

// program is the run of fenceproxy that the command exec is part of.
type program struct{ *cli.Program }

func (p *program) exec() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "exec --lock URL --resource NAME [flags] -- COMMAND [ARGUMENT]...",
		Short:   "Run any program under a lock, its clients carrying the token",
		Long:    longHelp,
		Example: examples,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the command's name is the command's
	connect.LockFlag(cmd)
	var e errand
	flags.StringVar(&e.resource, "resource", "", "name of what the lock protects (required)")
	flags.BoolVar(&e.shared, "shared", false, "hold the lock together with other readers; the token cannot write")
	cli.DurationVar(cmd, &e.ttl, "ttl", 15*time.Second, "how long the lock outlives the last sign of life of this process; the service may give more")
	cli.DurationVar(cmd, &e.wait, "wait", 0, "how long to wait for the lock, 0s not at all (default: for ever)")
	claims := flags.StringArray("claim", nil, "URL of a Postgres database, or of an S3 bucket, in which to claim the token first; can be given more than once")
	cli.DurationVar(cmd, &e.claimWait, "claim-wait", 10*time.Second, "how long a claim in a database waits for transactions of older holders")
	flags.BoolVar(&e.evict, "evict", false, "end the sessions of older holders that a claim still waits for then")
	flags.StringVar(&e.s3, "s3", "", "URL of fenceproxy in front of S3: clients of S3 go there, and carry the token")
	flags.BoolVar(&e.print, "print", false, "run nothing: print the token, and hold the lock until standard input ends")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if e.target, err = connect.LockTarget(cmd, p.Env); err != nil {
			return err
		}
		if e.claims, err = p.claimTargets(cmd, *claims); err != nil {
			return err
		}
		if err := e.check(cmd, args); err != nil {
			return err
		}
		if err := p.checkS3Proxy(cmd, &e); err != nil {
			return err
		}
		if !e.print {
			if e.path, err = child.Find(args[0], p.Env("PATH")); err != nil {
				return cannotRun(args[0], err)
			}
		}
		return p.runErrand(cmd.Context(), &e)
	}
	return cmd
}

// check refuses a command line that makes no sense.
func (e *errand) check(cmd *cobra.Command, args []string) error {
	e.args = args
	switch {
	case e.resource == "":
		return cli.Usage(cmd, "no resource: give --resource NAME")
	case e.print && len(args) > 0:
		return cli.Usage(cmd, "--print runs no command, got %q", args[0])
	case !e.print && len(args) == 0:
		return cli.Usage(cmd, "no command to run: give it behind --")
	case e.ttl < connect.MinTTL:
		return cli.Usage(cmd, "--ttl %v is below %v", e.ttl, connect.MinTTL)
	case e.wait < 0:
		return cli.Usage(cmd, "--wait is below 0")
	case e.claimWait <= 0:
		return cli.Usage(cmd, "--claim-wait is not above 0")
	case !slices.ContainsFunc(e.claims, waits) && (e.evict || cmd.Flags().Changed("claim-wait")):
		return cli.Usage(cmd, "--claim-wait and --evict are for a --claim in a database, and there is none")
	}
	if !cmd.Flags().Changed("wait") {
		e.wait = -1
	}
	if err := guard.ValidateResource(e.resource); err != nil {
		return cli.Usage(cmd, "--resource: %v", err)
	}
	return nil
}

// cannotRun is the error of a program that could not be started, with the exit
// code that shells have for it.
func cannotRun(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return cli.Fail(cli.ExitNoCommand, "%s: command not found", name)
	case errors.Is(err, syscall.ENOEXEC):
		return cli.Fail(cli.ExitNoExec, "cannot run %s: it is no program, and names none in a first line like #!/bin/sh", name)
	}
	return cli.Fail(cli.ExitNoExec, "cannot run %s: %w", name, err)
}

// WardenName is the command that exec runs between itself and the program.
const WardenName = "exec-warden"

func (p *program) warden() *cobra.Command {
	return &cobra.Command{
		Use:                WardenName,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			defer surviveSignals()()
			return child.RunWarden(args)
		},
	}
}
