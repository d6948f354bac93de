package main

import (
	"strings"
	"testing"
)

const nowhere = "postgres://u:s3cret@127.0.0.1:1/d?connect_timeout=5"

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
		{"migrate up now --postgres " + nowhere, `takes no argument, got "now"`},
		{"migrate up --grant", "flag needs an argument"},
		{"migrate status", "no database"},
		{"migrate status --postgres mysql://u:s3cret@h/d", "--postgres is not the URL of a Postgres database"},
		{"migrate status --postgres postgres://u:s3%zzcret@h/d", "special characters percent-encoded"},
		{"migrate status --postgres postgres://u:s3cret@h:port/d", "--postgres is not"},
		{"migrate down", "no database"},
		{"marks", "choose one of adopt, list, show"},
		{"marks list", "no database"},
		{"marks list orders --postgres " + nowhere, "takes no argument"},
		{"marks show --postgres " + nowhere, "wants one argument, RESOURCE, got 0"},
		{"marks show a b --postgres " + nowhere, "got 2"},
		{"marks show \x01 --postgres " + nowhere, "control character"},
		{"marks show " + strings.Repeat("x", 256) + " --postgres " + nowhere, "longer than 255"},
		{"marks adopt orders --postgres " + nowhere, "no issuer: give --issuer NEW"},
		{"marks adopt orders --issuer a:b --postgres " + nowhere, "--issuer"},
		{"marks adopt orders --issuer b --claim-wait -1s --postgres " + nowhere, "--claim-wait is below 0"},
		{"marks adopt orders --issuer b --wait -1s --postgres " + nowhere, "--claim-wait is below 0"}, // as it was called
		{"marks adopt orders --issuer b --wait soon --postgres " + nowhere, "invalid argument"},
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
			o := run(t, strings.Fields(c.args)...).want(t, exitUsage, c.says, "; see 'fenceproxy")
			if o.out != "" {
				t.Errorf("stdout: %s", o.out)
			}
			if strings.Contains(o.err, "cret") {
				t.Errorf("stderr has the password: %s", o.err)
			}
		})
	}
}

func TestDatabaseURLOfTheEnvironment(t *testing.T) {
	t.Parallel()
	i := invocation{args: []string{"marks", "list"}, env: map[string]string{postgresEnv: "mysql://u:s3cret@h/d"}}
	i.run(t.Context()).want(t, exitUsage, "DATABASE_URL is not the URL")
	i.args = append(i.args, "--postgres", nowhere) // the flag goes first
	i.run(t.Context()).want(t, exitUnreachable, "127.0.0.1:1")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"migrate up", "migrate status", "migrate down --yes", "marks list", "marks show orders",
		"marks adopt orders --issuer b --yes",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			o := run(t, append(strings.Fields(args), "--postgres", nowhere)...)
			o.want(t, exitUnreachable, "cannot reach Postgres at 127.0.0.1:1: connection refused", "check the URL")
			if strings.Contains(o.err, "s3cret") {
				t.Errorf("stderr has the password: %s", o.err)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial postgres://u:s3cret@h/d: no":             "dial postgres://u:xxxxx@h/d: no",
		"postgres://u:s3:cr@et@h/d":                    "postgres://u:xxxxx@h/d",
		"postgresql://:s3cret@h":                       "postgresql://:xxxxx@h",
		"host=h password=s3cret user=u":                "host=h password=xxxxx user=u",
		`host=h password='s3 cr\'et' user=u`:           "host=h password=xxxxx user=u",
		"postgres://h/d?user=u&password=s3cret&port=1": "postgres://h/d?user=u&password=xxxxx&port=1",
		"sslpassword = s3cret":                         "sslpassword = xxxxx",
		"postgres://h:5432/d and u@h":                  "postgres://h:5432/d and u@h",
		`password authentication failed for user "u"`:  `password authentication failed for user "u"`,
	} {
		if got := redact(text); got != want {
			t.Errorf("redact(%q) = %q, want %q", text, got, want)
		}
	}
}
