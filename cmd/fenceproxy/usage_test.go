package main

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
)

// Bad usage ends with 64 and one line that names the flaw and the help text,
// whatever command it is.
func TestBadUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		says string
	}{
		{"migrat", `unknown command "migrat"; did you mean migrate?`},
		{"help nonsense", `unknown command "nonsense"; see 'fenceproxy --help'`},
		{"help migrat", `unknown command "migrat"; did you mean migrate?`},
		{"help migrate sideways", `unknown command "sideways"; see 'fenceproxy migrate --help'`},
		{"--version now", `unknown command "now"`},
		{"--frobnicate", "unknown flag: --frobnicate; see 'fenceproxy --help'"},
		{"migrate", "choose one of down, status, up; see 'fenceproxy migrate --help'"},
		{"migrate sideways", `unknown command "sideways"`},
		{"migrate up", "no database: give --postgres URL, or set DATABASE_URL"},
		{"migrate up now --postgres " + clitest.Nowhere, `takes no argument, got "now"`},
		{"migrate up --grant", "flag needs an argument"},
		{"migrate status", "no database"},
		{"migrate status --postgres mysql://u:s3cret@h/d", "--postgres is not the URL of a Postgres database"},
		{"migrate status --postgres postgres://u:s3%zzcret@h/d", "special characters percent-encoded"},
		{"migrate status --postgres postgres://u:s3cret@h:port/d", "--postgres is not"},
		{"migrate down", "no database"},
		{"marks", "choose one of adopt, list, show"},
		{"marks list", "no database"},
		{"marks list orders --postgres " + clitest.Nowhere, "takes no argument"},
		{"marks show --postgres " + clitest.Nowhere, "wants one argument, RESOURCE, got 0"},
		{"marks show a b --postgres " + clitest.Nowhere, "got 2"},
		{"marks show \x01 --postgres " + clitest.Nowhere, "control character"},
		{"marks show " + strings.Repeat("x", 256) + " --postgres " + clitest.Nowhere, "longer than 255"},
		{"marks adopt orders --postgres " + clitest.Nowhere, "no issuer: give --issuer NEW"},
		{"marks adopt orders --issuer a:b --postgres " + clitest.Nowhere, "--issuer"},
		{"marks adopt orders --issuer b --claim-wait -1s --postgres " + clitest.Nowhere, "--claim-wait is below 0"},
		{"marks adopt orders --issuer b --wait -1s --postgres " + clitest.Nowhere, "--claim-wait is below 0"}, // as it was called
		{"marks adopt orders --issuer b --wait soon --postgres " + clitest.Nowhere, "invalid argument"},
		{"demo --etcd localhost", `--etcd "localhost" is not host:port`},
		{"demo --lease-ttl 1s", "--lease-ttl 1s is not between 2s and 10s"},
		{"demo --lease-ttl 2500ms", "in whole seconds"},
		{"demo --lease-ttl 11s", "not between"},
		{"demo now", "takes no argument"},
		{"demo --postgres nonsense", "--postgres is not the URL"},
		{"version 2", "takes no argument"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			o := clitest.Run(t, strings.Fields(c.args)...).Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy")
			if o.Out != "" {
				t.Errorf("stdout: %s", o.Out)
			}
			if strings.Contains(o.Err, "cret") {
				t.Errorf("stderr has the password: %s", o.Err)
			}
		})
	}
}

func TestDatabaseURLOfTheEnvironment(t *testing.T) {
	t.Parallel()
	i := clitest.Invocation{Args: []string{"marks", "list"}, Env: map[string]string{connect.DatabaseEnv: "mysql://u:s3cret@h/d"}}
	i.Run(t.Context()).Want(t, cli.ExitUsage, "DATABASE_URL is not the URL")
	i.Args = append(i.Args, "--postgres", clitest.Nowhere) // the flag goes first
	i.Run(t.Context()).Want(t, cli.ExitUnreachable, "127.0.0.1:1")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"migrate up", "migrate status", "migrate down --yes", "marks list", "marks show orders",
		"marks adopt orders --issuer b --yes",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			o := clitest.Run(t, append(strings.Fields(args), "--postgres", clitest.Nowhere)...)
			o.Want(t, cli.ExitUnreachable, "cannot reach Postgres at 127.0.0.1:1: connection refused", "check the URL")
			if strings.Contains(o.Err, "s3cret") {
				t.Errorf("stderr has the password: %s", o.Err)
			}
		})
	}
}
