// Package demo is the command demo, which shows a lost update, and shows it
// refused.
package demo

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/internal/demo"
)

// Commands of the processes that demo starts.
const (
	WorkerName  = "demo-worker"
	CleanerName = "demo-cleaner"
)

// Command is fenceproxy demo.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).demo() }

// Worker is a process that demo starts. It is not for use by hand.
func Worker(p *cli.Program) *cobra.Command { return (&program{p}).worker() }

// Cleaner is the process that clears up behind a demo that was killed. It is not
// for use by hand.
func Cleaner(p *cli.Program) *cobra.Command { return (&program{p}).cleaner() }

// program is the run of fenceproxy that the command demo is part of.
type program struct{ *cli.Program }

func (p *program) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See a paused lock holder overwrite a newer one, and see it refused",
		Long: `Plays a story with real processes. Two workers add to one ledger under one lock
in etcd. The first reads the balance and is stopped (SIGSTOP) before it writes,
past its lease; the second gets the lock, and works; the first is continued
(SIGCONT), and commits late. Once without a fence: the second worker's deposits
are lost. Once with: the late write is refused, and the ledger is right.

Without --postgres and --etcd it starts servers of its own on free loopback
ports: PostgreSQL from /usr/lib/postgresql, from postgres-* beside this program
or from PATH; etcd from beside this program or from PATH. Give a server of yours
and it is used as a guest uses it: in a new database if the role may create one,
else in a new schema, and under a key prefix of its own in etcd. Either way
everything is removed in the end, after Ctrl-C and after kill -9 too. (Only where
the role may not create a database and the schema fence is there already, one
mark stays in it.)

With --json the story goes to standard error, and standard output gets one line:
  {"unfenced":{"stale_writes_applied":1,"stale_writes_refused":0,"acknowledged":4,
   "entries":4,"amount":130,"balance":1100,"expected":1130,"ledger_right":false},
   "fenced":{…the same…},"seconds":9.8}
It is counted in SQL from what was committed. The exit code is 0 only if a stale
write was applied unfenced and refused fenced, and the fenced ledger is right.`,
		Example: `  fenceproxy demo
  fenceproxy demo --postgres postgres://me@localhost/scratch --etcd localhost:2379
  fenceproxy demo --json 2>/dev/null | jq .fenced`,
		Args: cli.NoArguments,
	}
	connect.DatabaseFlag(cmd, "URL of a Postgres to use instead of one of the demo's own")
	etcd := cmd.Flags().String("etcd", "", "host:port of an etcd to use instead of one of the demo's own")
	ttl := cmd.Flags().Duration("lease-ttl", 3*time.Second, fmt.Sprintf("how long a lease holds, %v to %v", demo.MinTTL, demo.MaxTTL))
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config, err := p.config(cmd, *etcd, *ttl)
		if err != nil {
			return err
		}
		out := p.Out
		if *asJSON {
			out = p.Err
		}
		result, err := demo.Run(cmd.Context(), config, p.timeline(out))
		if err != nil {
			return err
		}
		if *asJSON {
			if err := cli.PrintJSON(p.Out, result); err != nil {
				return err
			}
		}
		return result.Verify()
	}
	return cmd
}

func (p *program) config(cmd *cobra.Command, etcd string, ttl time.Duration) (demo.Config, error) {
	c := demo.Config{Etcd: etcd, TTL: ttl, WorkerArgs: []string{WorkerName}, CleanUpArgs: []string{CleanerName}}
	if etcd != "" {
		if host, port, err := net.SplitHostPort(etcd); err != nil || host == "" || port == "" {
			return c, cli.Usage(cmd, "--etcd %q is not host:port", etcd)
		}
	}
	if ttl < demo.MinTTL || ttl > demo.MaxTTL || ttl%time.Second != 0 {
		return c, cli.Usage(cmd, "--lease-ttl %v is not between %v and %v in whole seconds", ttl, demo.MinTTL, demo.MaxTTL)
	}
	var err error
	if c.Postgres, err = connect.DatabaseURL(cmd, p.Env); err != nil {
		return c, err
	}
	if c.Executable, err = p.Executable(); err != nil {
		return c, fmt.Errorf("find this program: %w", err)
	}
	c.Programs = []string{filepath.Dir(c.Executable)}
	return c, nil
}

func (p *program) timeline(out io.Writer) *demo.Timeline {
	file, ok := out.(*os.File)
	return demo.NewTimeline(out, ok && p.Colour(file), ok && cli.IsTerminal(file))
}

// worker is what the demo runs twice.
func (p *program) worker() *cobra.Command {
	return &cobra.Command{
		Use:    WorkerName,
		Hidden: true,
		Args:   cli.NoArguments,
		RunE:   func(cmd *cobra.Command, _ []string) error { return demo.Work(cmd.Context(), p.In, p.Out) },
	}
}

// cleaner is what outlives the demo.
func (p *program) cleaner() *cobra.Command {
	return &cobra.Command{
		Use:    CleanerName,
		Hidden: true,
		Args:   cli.NoArguments,
		RunE:   func(cmd *cobra.Command, _ []string) error { return demo.CleanUp(cmd.Context(), p.In) },
	}
}
