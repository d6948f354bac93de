package serveconfig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const leastS3 = `s3:
  - listen: 127.0.0.1:9100
    upstream: {endpoint: 'http://127.0.0.1:9000', access_key: proxy, secret_key: '${SECRET}'}
    clients: [{access_key: app, secret_key: 0123456789abcdef, buckets: ["*"]}]
`

func TestS3Defaults(t *testing.T) {
	t.Parallel()
	want := []S3{{
		Listen: "127.0.0.1:9100", Upstream: S3Upstream{Endpoint: "http://127.0.0.1:9000", Region: "us-east-1", AccessKey: "proxy", SecretKey: "s3cret", ResponseTimeout: 2 * time.Minute},
		Clients: []S3Client{{AccessKey: "app", SecretKey: "0123456789abcdef", Buckets: []string{"*"}}}, Untokened: "read-only",
		MaxBodyTime: time.Minute, HeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
	}}
	c := mustParse(t, leastS3)
	if diff := cmp.Diff(want, c.S3, plain()); diff != "" || len(c.Postgres) > 0 {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c := mustParse(t, leastS3+least); len(c.Postgres) != 1 || len(c.S3) != 1 {
		t.Errorf("both: %+v", c)
	}
}

// plain compares secrets by what they are.
func plain() cmp.Option {
	return cmp.Options{cmp.Transformer("", func(s Secret) string { return string(s) }), cmpopts.IgnoreUnexported(Config{})}
}

func TestS3EveryKey(t *testing.T) {
	t.Parallel()
	got := mustParse(t, `
s3:
  - listen: "[::1]:9100"
    tls: {cert: cert.pem, key: key.pem, client_ca: clients.pem}
    upstream: {endpoint: "https://${HOST}:9000/", region: eu-central-1, access_key: proxy, secret_key: "${SECRET}", ca: ca.pem, response_timeout: 45s}
    clients:
      - {access_key: app, secret_key: "a secret with $${ in it", buckets: [app, app.reports]}
      - {access_key: Reader.1, secret_key: "${SECRET}${SECRET}${SECRET}", buckets: ["*"], read_only: true}
    untokened: allow
    resources:
      - {prefix: app/, resource: orders}
      - {prefix: app/reports/2026/, resource: reports 2026}
    legacy: true
    max_body_time: 30s
    domains: [s3.example, localhost]
    max_connections: 1000
    header_timeout: 5s
    idle_timeout: 30s
`)
	want := []S3{{
		Listen: "[::1]:9100", TLS: &S3TLS{"cert.pem", "key.pem", "clients.pem"},
		Upstream: S3Upstream{Endpoint: "https://db.example:9000", Region: "eu-central-1", AccessKey: "proxy", SecretKey: "s3cret", CA: "ca.pem", ResponseTimeout: 45 * time.Second},
		Clients: []S3Client{
			{AccessKey: "app", SecretKey: "a secret with ${ in it", Buckets: []string{"app", "app.reports"}},
			{AccessKey: "Reader.1", SecretKey: "s3crets3crets3cret", Buckets: []string{"*"}, ReadOnly: true},
		},
		Untokened: "allow", Resources: []S3Resource{{"app/", "orders"}, {"app/reports/2026/", "reports 2026"}}, Legacy: true,
		MaxBodyTime: 30 * time.Second, Domains: []string{"s3.example", "localhost"}, MaxConnections: 1000, HeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second,
	}}
	if diff := cmp.Diff(want, got.S3, plain()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, key := range Keys() {
		if key.Path == "s3[].clients[].buckets" {
			return
		}
	}
	t.Errorf("buckets are no key: %v", Keys())
}

// What is wrong with a listener for S3 is told with its place, and without its
// secrets.
func TestProblemsOfS3(t *testing.T) {
	t.Parallel()
	const (
		ok       = "listen: 127.0.0.1:9100"
		up       = "; upstream: {endpoint: 'http://127.0.0.1:9000', access_key: proxy, secret_key: s3cret}"
		somebody = "; clients: [{access_key: app, secret_key: s3cret-s3cret-s3cret, buckets: [app]}]"
	)
	clients := func(elements string) string { return ok + up + "; clients: [" + elements + "]" }
	resources := func(elements string) string { return ok + up + somebody + "; resources: [" + elements + "]" }
	endpoint := func(url string) string {
		return ok + "; upstream: {access_key: proxy, secret_key: s3cret, endpoint: '" + url + "'}" + somebody
	}
	const noURL = "f.yaml:3:65: s3[0].upstream.endpoint: is not the URL of a store: it must read https://host:port, or http:// without TLS"
	for _, c := range []struct{ keys, says string }{
		{ok, "f.yaml:2:5: s3[0].upstream: is missing\nf.yaml:2:5: s3[0].clients: is missing"},
		{"listen: /run/s3" + up + somebody, `f.yaml:2:13: s3[0].listen: "/run/s3" is not host:port`},
		{"listen: ':9100'" + up + somebody, `f.yaml:2:13: s3[0].listen: ":9100" has no host: 127.0.0.1:9100 is for this machine only`},
		{endpoint("127.0.0.1:9000"), noURL},
		{endpoint("ftp://h"), noURL},
		{endpoint("http://"), noURL},
		{endpoint("http://u:s3cret@h"), noURL},
		{endpoint("http://h/s3cret"), noURL},
		{endpoint("http://h?s3cret"), noURL},
		{endpoint("http://h:s3cret"), noURL},
		{endpoint("http://h:0"), `endpoint: has no port "0"`},
		{endpoint("http://h', ca: 'x"), "f.yaml:3:81: s3[0].upstream.ca: is for TLS, and endpoint is http://"},
		{ok + "; upstream: {endpoint: 'http://h', access_key: proxy}" + somebody, "s3[0].upstream.secret_key: is missing"},
		{ok + "; upstream: {endpoint: 'http://h', access_key: proxy, secret_key: '${EMPTY}'}" + somebody, "s3[0].upstream.secret_key: is empty"},
		{ok + "; upstream: {endpoint: 'http://h', access_key: proxy, secret_key: 's3${cret'}" + somebody, "s3[0].upstream.secret_key: has a ${ in it that is no variable"},
		{ok + "; upstream: {endpoint: 'http://h', access_key: proxy, secret_key: '${NOPE}'}" + somebody, "s3[0].upstream.secret_key: the environment has no variable NOPE"},
		{ok + "; upstream: {endpoint: 'http://h', access_key: proxy, secret_key: \"s3cret\\n\"}" + somebody, "s3[0].upstream.secret_key: has a control character in it, perhaps the end of a line"},
		{ok + "; upstream: {endpoint: 'http://h', access_key: proxy, secret_key: [s3cret]}" + somebody, "s3[0].upstream.secret_key: must be one value"},
		{clients(""), "f.yaml:4:14: s3[0].clients: is empty: nobody could come"},
		{clients("{access_key: a/s3cret, secret_key: s3cret-s3cret-s3cret, buckets: [app]}"), "f.yaml:4:28: s3[0].clients[0].access_key: has 1 to 128 letters, digits and . _ ~ - in it, and nothing else"},
		{clients("{access_key: app, secret_key: s3cret-s3cret-s, buckets: [app]}"), "f.yaml:4:45: s3[0].clients[0].secret_key: has less than 16 bytes"},
		{clients("{access_key: app, secret_key: s3cret-s3cret-s3, buckets: []}"), `s3[0].clients[0].buckets: is empty: name the buckets, or "*" for all`},
		{clients("{access_key: app, secret_key: s3cret-s3cret-s3, buckets: app}"), `s3[0].clients[0].buckets: must be a list`},
		{clients("{access_key: app, secret_key: s3cret-s3cret-s3, buckets: [app-*]}"), `s3[0].clients[0].buckets[0]: "app-*" is not the name of a bucket, and only "*" alone stands for all`},
		{clients("{access_key: app, secret_key: s3cret-s3cret-s3, buckets: [app, '*']}"), `s3[0].clients[0].buckets[1]: "*" is all buckets, and stands alone`},
		{clients("{access_key: app, secret_key: s3cret-s3cret-s3, buckets: [app, app]}"), `s3[0].clients[0].buckets[1]: "app" is there twice`},
		{clients("{access_key: app, secret_key: s3cret-s3cret-s3, buckets: [app]}, {access_key: app, secret_key: s3cret-s3cret-s4, buckets: [stock]}"), "s3[0].clients[1].access_key: is that of s3[0].clients[0] too"},
		{resources("{prefix: app, resource: orders}"), `f.yaml:5:26: s3[0].resources[0].prefix: "app" is not bucket/prefix, as in app/reports/; app/ is all of the bucket app`},
		{resources("{prefix: /app, resource: orders}"), `"/app" is not bucket/prefix`},
		{resources("{prefix: app/.fence/x, resource: orders}"), `s3[0].resources[0].prefix: "app/.fence/x" is the fence's own`},
		{resources("{prefix: app/a, resource: orders}, {prefix: app/a, resource: stock}"), `s3[0].resources[1].prefix: "app/a" is that of s3[0].resources[0] too`},
		{resources("{prefix: app/a, resource: \"a\\tb\"}"), `s3[0].resources[0].resource: is not the name of a resource`},
		{ok + up + somebody + "; untokened: allow", "f.yaml:5:16: s3[0].untokened: allow needs resources"},
		{ok + up + somebody + "; domains: [S3.example]", `f.yaml:5:15: s3[0].domains[0]: "S3.example" is not the name of a domain in lower case, without a port`},
		{ok + up + somebody + "; domains: ['s3.example:9100']", `is not the name of a domain`},
		{ok + up + somebody + "; domains: [127.0.0.1]", `"127.0.0.1" is an address: no bucket can stand in front of it`},
		{ok + up + somebody + "; domains: [a.b, a.b]", `s3[0].domains[1]: "a.b" is there twice`},
		{ok + up + somebody + "; max_body_time: 0s", `max_body_time: "0s" is not above 0`},
		{ok + up + somebody + "; tls: {cert: c}", `s3[0].tls.key: is missing`},
		{ok + up + somebody + "; tls: {cert: c, key: k, required: true}", `s3[0].tls.required: is no key; here there are cert, key, client_ca`},
		{ok + up + somebody + "; postgres: []", `s3[0].postgres: is no key`},
	} {
		text := "s3:\n  - " + strings.ReplaceAll(c.keys, "; ", "\n    ") + "\n"
		if got := mustFail(t, text).Error(); !strings.HasPrefix(got, "f.yaml:") || !strings.Contains(got, c.says) || strings.Contains(got, "s3cret") && !strings.Contains(c.says, "s3cret") {
			t.Errorf("%s\n  got  %s\n  want %s", text, got, c.says)
		}
	}
	both := leastS3 + strings.ReplaceAll(least, "6432", "9100")
	if got := mustFail(t, both).Error(); got != "f.yaml:2:13: s3[0].listen: 127.0.0.1:9100 is taken by postgres[0].listen" {
		t.Errorf("got %s", got)
	}
}

// Nothing that is printed shows a secret.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	c := mustParse(t, leastS3)
	text, err := json.Marshal([]Secret{c.S3[0].Upstream.SecretKey, c.S3[0].Clients[0].SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(c.S3), fmt.Sprintf("%+v %#v %q %s", c.S3, c.S3, c.S3[0].Upstream.SecretKey, c.S3[0].Clients[0].SecretKey), string(text)} {
		if !strings.Contains(shown, "***") || strings.Contains(shown, "s3cret") || strings.Contains(shown, "0123456789abcdef") {
			t.Errorf("%s", shown)
		}
	}
}

func TestLoadS3TLS(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), t.TempDir()
	for _, name := range []string{"a", "ca"} {
		certificate(t, dir, name, now.Add(-time.Hour))
	}
	text := strings.Replace(leastS3, "http://127.0.0.1:9000'", "https://127.0.0.1:9000', ca: DIR/ca.crt", 1)
	text = strings.ReplaceAll(text+"    tls: {cert: DIR/a.crt, key: DIR/a.key, client_ca: DIR/ca.crt}\n", "DIR", dir)
	clients, upstream, err := mustParse(t, text).LoadS3TLS(0)
	if err != nil {
		t.Fatal(err)
	}
	if clients.Certificates[0].Leaf.Subject.CommonName != "a" || clients.ClientCAs == nil || upstream.RootCAs == nil {
		t.Errorf("clients %+v, upstream %+v", clients, upstream)
	}
	if clients, upstream, err := mustParse(t, leastS3).LoadS3TLS(0); clients != nil || upstream != nil || err != nil {
		t.Errorf("of nothing: %v, %v, %v", clients, upstream, err)
	}

	// Secrets that everybody can read, a client that needs no proxy.
	path := filepath.Join(dir, "f.yaml")
	certificate(t, dir, "a", now.AddDate(-1, 0, 1))
	write(t, filepath.Join(dir, "a.key"), mustRead(t, filepath.Join(dir, "a.key")), 0o644)
	warnings := func(text string, mode os.FileMode) error {
		t.Helper()
		write(t, path, []byte(text), mode)
		c, err := Read(path, environment)
		if err != nil {
			t.Fatal(err)
		}
		return Problems(c.Warnings(now))
	}
	wantLines(t, warnings(text, 0o644), path+":4:45: s3[0].clients[0].secret_key: everybody on this machine has access to "+path+" (-rw-r--r--)",
		"s3[0].tls.key: everybody on this machine has access to "+dir+"/a.key", "s3[0].tls.cert: the certificate ends at")
	same := strings.Replace(leastS3, "0123456789abcdef", "'${SECRET}${SECRET}${SECRET}'", 1)
	if got := warnings(same, 0o644).Error(); got != "" {
		t.Errorf("of variables: %s", got)
	}
	same = strings.Replace(same, "'${SECRET}'}\n", "'${SECRET}${SECRET}${SECRET}'}\n", 1)
	if got, want := warnings(same, 0o644).Error(), path+":4:45: s3[0].clients[0].secret_key: is that of upstream: this client can write to the store itself, past the fence"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	write(t, filepath.Join(dir, "ca.crt"), []byte("nothing"), 0o600)
	_, _, err = mustParse(t, text).LoadS3TLS(0)
	wantLines(t, err, "s3[0].tls.client_ca: "+dir+"/ca.crt has no certificate", "s3[0].upstream.ca: "+dir+"/ca.crt has no certificate")
}
