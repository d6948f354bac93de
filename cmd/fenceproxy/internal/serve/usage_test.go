package serve

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

func TestServeBadUsage(t *testing.T) {
	t.Parallel()
	const both = "--postgres-listen 127.0.0.1:0 --postgres-upstream 127.0.0.1:1 "
	const s3 = "--s3-listen 127.0.0.1:0 --s3-upstream http://127.0.0.1:1 "
	for _, c := range []struct{ args, says string }{
		{"", "nothing to serve: give --config FILE, or --postgres-listen and --postgres-upstream, or --s3-listen and --s3-upstream"},
		{"--s3-listen 127.0.0.1:0", ": --s3-listen is there, and --s3-upstream is missing"},
		{"--s3-upstream http://h --untokened deny", ": --s3-upstream is there, and --s3-listen is missing"},
		{"--postgres-upstream 127.0.0.1:1", ": --postgres-upstream is there, and --postgres-listen is missing"},
		{s3 + "--untokened allow", "--untokened: allow needs resources, which are s3[].resources in a --config file"},
		{"--config f.yaml --s3-bucket b", "--s3-bucket is not for use with --config: write s3.clients.buckets into the file"},
		{both + s3, "one listener can be had by flags, and there is one for S3 already: use --config for more"},
		{both + "--s3-bucket b", "--s3-bucket says nothing to a listener for Postgres"},
		{s3 + "--evict", "--evict says nothing to a listener for S3"},
		{s3, "no keys for the proxy itself, at the store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
		{"--postgres-listen 127.0.0.1:0", ": --postgres-listen is there, and --postgres-upstream is missing"},
		{"--untokened deny", "nothing to serve"},
		{"--config f.yaml --untokened deny", "--untokened is not for use with --config: write untokened into the file"},
		{"--config f.yaml now", `takes no argument, got "now"`},
		{both + "--untokened none", `--untokened: "none" is none of read-only, deny, allow`},
		{both + "--claim-wait 10", `: --claim-wait: "10" is not a duration with a unit, as in 500ms, 10s or 5m; see`},
		{both + "--postgres-tls-cert a", "key: is missing"},
		{both + "--postgres-upstream-ca a", "--postgres-upstream-ca: is for TLS, and mode is disable"},
		{both + "--evict=yes --max-connections many", `--evict: "yes" is neither true nor false; --max-connections: "many" is not`},
		{both + "--config", "flag needs an argument"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			o := clitest.Run(t, append([]string{"serve"}, strings.Fields(c.args)...)...).Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy serve --help'")
			if o.Out != "" {
				t.Errorf("stdout: %s", o.Out)
			}
		})
	}
}

// What is wrong with the keys of an S3 listener by flags, which come from the
// environment.
func TestServeS3Environment(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"AWS_ACCESS_KEY_ID": "proxy", "AWS_SECRET_ACCESS_KEY": "s3cret-of-the-proxy", s3ClientKeyEnv: "app", s3ClientSecretEnv: "s3cret-of-clients",
	}
	check := func(name, value string, flags ...string) clitest.Outcome {
		env := maps.Clone(good)
		env[name] = value
		args := append([]string{"serve", "--check", "--s3-listen", "127.0.0.1:9100", "--s3-upstream", "https://store"}, flags...)
		return clitest.Invocation{Args: args, Env: env}.Run(t.Context())
	}
	check("AWS_REGION", "eu-central-1").Want(t, cli.ExitOK)
	check("AWS_SESSION_TOKEN", "ft1:x:42:h:i:orders").Want(t, cli.ExitOK)
	check("AWS_CA_BUNDLE", "/nowhere", "--s3-upstream", "http://store", "--s3-bucket", "app", "--s3-domain", "s3.example", "--untokened", "deny").Want(t, cli.ExitOK)
	for _, c := range []struct{ name, value, says string }{
		{"AWS_SECRET_ACCESS_KEY", "", "no keys for the proxy itself, at the store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
		{s3ClientKeyEnv, "", "no keys for clients: set FENCEPROXY_S3_ACCESS_KEY and FENCEPROXY_S3_SECRET_KEY"},
		{s3ClientSecretEnv, "", "no keys for clients"},
		{s3ClientSecretEnv, "s3cret-of-clien", "FENCEPROXY_S3_SECRET_KEY: has less than 16 bytes"},
		{s3ClientSecretEnv, "s3cret-of-clients\n", "FENCEPROXY_S3_SECRET_KEY: has a control character in it"},
		{s3ClientKeyEnv, "a/b", "FENCEPROXY_S3_ACCESS_KEY: has 1 to 128 letters"},
		{"AWS_SESSION_TOKEN", "of-amazon", "AWS_SESSION_TOKEN is set: keys that are good for a time only are not for a proxy"},
		{"AWS_CA_BUNDLE", "/nowhere", "AWS_CA_BUNDLE: open /nowhere: no such file"},
	} {
		if o := check(c.name, c.value).Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy serve --help'"); strings.Contains(o.Err, "s3cret-") {
			t.Errorf("%s: stderr has a secret: %s", c.name, o.Err)
		}
	}
	check("AWS_REGION", "r", "--s3-tls-cert", "a").Want(t, cli.ExitUsage, "key: is missing")
	check("AWS_REGION", "r", "--untokened", "allow").Want(t, cli.ExitUsage, "--untokened: allow needs resources")
	check("AWS_REGION", "r", "--s3-domain", "127.0.0.1").Want(t, cli.ExitUsage, "--s3-domain: \"127.0.0.1\" is an address")
	o := check(s3ClientSecretEnv, "s3cret-of-the-proxy", "--s3-upstream", "http://store").Want(t, cli.ExitOK)
	if want := "warning: FENCEPROXY_S3_SECRET_KEY: is that of upstream"; !strings.HasPrefix(o.Err, want) {
		t.Errorf("%q", o.Err)
	}
}

func TestServeCheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	check := func(text string) clitest.Outcome {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return clitest.Invocation{Args: []string{"serve", "--config", path, "--check"}, Env: map[string]string{"SERVER": "db:5432", "SECRET": "s3cret"}}.Run(t.Context())
	}
	const good = "postgres:\n  - listen: 127.0.0.1:6432\n    upstream: {address: '${SERVER}'}\n"
	if o := check(good).Want(t, cli.ExitOK); o.Out != path+": no mistakes\n" || o.Err != "" {
		t.Errorf("%q, %q", o.Out, o.Err)
	}
	o := check("admin: {listen: '0.0.0.0:9187'}\n"+good).Want(t, cli.ExitOK)
	if want := "warning: " + path + ":1:17: admin.listen: whoever can reach 0.0.0.0:9187 sees the metrics"; !strings.HasPrefix(o.Err, want) {
		t.Errorf("%q", o.Err)
	}
	check(good+"    evict: ${NOT_SET}\n").Want(t, cli.ExitConfig, path+":4:12: postgres[0].evict: the environment has no variable NOT_SET")
	o = check(good + "    evict: ${SECRET}\n    tls: {}\n")
	if o.Code != cli.ExitConfig || strings.Contains(o.Err, "s3cret") || !strings.HasSuffix(o.Err, "fenceproxy: "+path+" has 3 mistakes\n") || strings.Count(o.Err, "\n") != 4 {
		t.Errorf("%d, %q", o.Code, o.Err)
	}
	o = check(good + "    tls: {cert: /nowhere/a, key: /nowhere/b}\n")
	if o.Code != cli.ExitConfig || !strings.Contains(o.Err, ":4:17: postgres[0].tls.cert: open /nowhere/a: no such file") || !strings.Contains(o.Err, "postgres[0].tls.key: open /nowhere/b") {
		t.Errorf("%d, %q", o.Code, o.Err)
	}
	const store = "s3:\n  - listen: 127.0.0.1:9100\n    upstream: {endpoint: 'http://h', access_key: a, secret_key: '${SECRET}'}\n    clients: [{access_key: b, secret_key: '${SECRET}${SECRET}${SECRET}', buckets: ['*']}]\n"
	if o := check(good+store).Want(t, cli.ExitOK); o.Err != "" {
		t.Errorf("%q", o.Err)
	}
	o = check(store + "    tls: {cert: /nowhere/a, key: /nowhere/b}\n")
	if o.Code != cli.ExitConfig || !strings.Contains(o.Err, ":5:34: s3[0].tls.key: open /nowhere/b") || strings.Contains(o.Err, "s3cret") {
		t.Errorf("%d, %q", o.Code, o.Err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	clitest.Run(t, "serve", "--config", path).Want(t, cli.ExitNotFound, "no such file or directory")
	clitest.Run(t, "serve", "--postgres-listen", "127.0.0.1:6432", "--postgres-upstream", "db:5432", "--check").Want(t, cli.ExitOK)
}
