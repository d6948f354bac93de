package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServeBadUsage(t *testing.T) {
	t.Parallel()
	const both = "--postgres-listen 127.0.0.1:0 --postgres-upstream 127.0.0.1:1 "
	for _, c := range []struct{ args, says string }{
		{"", "nothing to serve: give --config FILE, or --postgres-listen and --postgres-upstream"},
		{"--postgres-listen 127.0.0.1:0", "nothing to serve"},
		{"--untokened deny", "nothing to serve"},
		{"--config f.yaml --untokened deny", "--untokened is not for use with --config: write postgres.untokened into the file"},
		{"--config f.yaml now", `takes no argument, got "now"`},
		{both + "--untokened none", `--untokened: "none" is none of read-only, deny, allow`},
		{both + "--claim-wait 10", `--claim-wait: "10" is not a duration`},
		{both + "--postgres-tls-cert a", "key: is missing"},
		{both + "--postgres-upstream-ca a", "--postgres-upstream-ca: is for TLS, and mode is disable"},
		{both + "--evict=yes --max-connections many", `--evict: "yes" is neither true nor false; --max-connections: "many" is not`},
		{both + "--config", "flag needs an argument"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			o := run(t, append([]string{"serve"}, strings.Fields(c.args)...)...).want(t, exitUsage, c.says, "; see 'fenceproxy serve --help'")
			if o.out != "" {
				t.Errorf("stdout: %s", o.out)
			}
		})
	}
}

func TestServeCheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	check := func(text string) outcome {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return invocation{args: []string{"serve", "--config", path, "--check"}, env: map[string]string{"SERVER": "db:5432", "SECRET": "s3cret"}}.run(t.Context())
	}
	const good = "postgres:\n  - listen: 127.0.0.1:6432\n    upstream: {address: '${SERVER}'}\n"
	if o := check(good).want(t, exitOK); o.out != path+": no mistakes\n" || o.err != "" {
		t.Errorf("%q, %q", o.out, o.err)
	}
	o := check("admin: {listen: '0.0.0.0:9187'}\n"+good).want(t, exitOK)
	if want := "warning: " + path + ":1:17: admin.listen: whoever can reach 0.0.0.0:9187 sees the metrics"; !strings.HasPrefix(o.err, want) {
		t.Errorf("%q", o.err)
	}
	check(good+"    evict: ${NOT_SET}\n").want(t, exitConfig, path+":4:12: postgres[0].evict: the environment has no variable NOT_SET")
	o = check(good + "    evict: ${SECRET}\n    tls: {}\n")
	if o.code != exitConfig || strings.Contains(o.err, "s3cret") || !strings.HasSuffix(o.err, "fenceproxy: "+path+" has 3 mistakes\n") || strings.Count(o.err, "\n") != 4 {
		t.Errorf("%d, %q", o.code, o.err)
	}
	o = check(good + "    tls: {cert: /nowhere/a, key: /nowhere/b}\n")
	if o.code != exitConfig || !strings.Contains(o.err, ":4:17: postgres[0].tls.cert: open /nowhere/a: no such file") || !strings.Contains(o.err, "postgres[0].tls.key: open /nowhere/b") {
		t.Errorf("%d, %q", o.code, o.err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	run(t, "serve", "--config", path).want(t, exitNotFound, "no such file or directory")
	run(t, "serve", "--postgres-listen", "127.0.0.1:6432", "--postgres-upstream", "db:5432", "--check").want(t, exitOK)
}
