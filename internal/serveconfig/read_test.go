package serveconfig

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// environment is what tests expand from.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"HOST": "db.example", "EMPTY": "", "EVICT": "true", "YAML": "a\nuntokened: allow #", "DOLLAR": "${HOST}", "SECRET": "s3cret",
	}[name]
	return value, ok
}

func parse(text string) (*Config, error) { return Parse("f.yaml", []byte(text), environment) }

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const least = "postgres: [{listen: '127.0.0.1:6432', upstream: {address: 'db:5432'}}]\n"

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := &Config{
		Log: Log{Format: "text", Level: "info"}, ShutdownTimeout: 30 * time.Second,
		Postgres: []Postgres{{
			Listen: "127.0.0.1:6432", SocketMode: 0o777, Upstream: Upstream{Address: "db:5432", ConnectTimeout: 10 * time.Second, TLS: UpstreamTLS{Mode: "disable"}},
			Untokened: "read-only", ClaimWait: 10 * time.Second, HandshakeTimeout: time.Minute,
			KeepAlive: 30 * time.Second, UserTimeout: 2 * time.Minute, MaxMessage: 256 << 20,
		}},
	}
	if diff := cmp.Diff(want, mustParse(t, least), cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// What has no keys under it says nothing.
	if diff := cmp.Diff(want, mustParse(t, "admin:\nlog: # all of it as it is\n"+least), cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEveryKey(t *testing.T) {
	t.Parallel()
	got := mustParse(t, `
shutdown_timeout: 1m30s
admin: {listen: ":9187", pprof: true}
log: {format: json, level: debug, statements: true}
postgres:
  - listen: "[::1]:6432"
    upstream: &db
      address: ${HOST}:5432
      connect_timeout: 3s
      tls: {mode: verify-full, ca: ca.pem, cert: c.pem, key: k.pem, server_name: name, direct: true}
    tls: {cert: cert.pem, key: key.pem, client_ca: clients.pem, required: true, verify_user: true}
    untokened: deny
    claim_wait: 500ms
    evict: ${EVICT}
    max_connections: 100
    idle_in_transaction_timeout: 5m
    allow_replication: true
    handshake_timeout: 10s
    keepalive: 0s
    user_timeout: 0s
    max_message: 64MiB
  - listen: /run/fenceproxy/.s.PGSQL.6432
    socket_mode: 0770
    upstream: *db
`)
	db := Upstream{Address: "db.example:5432", ConnectTimeout: 3 * time.Second, TLS: UpstreamTLS{Mode: "verify-full", CA: "ca.pem", Cert: "c.pem", Key: "k.pem", ServerName: "name", Direct: true}}
	want := &Config{
		ShutdownTimeout: 90 * time.Second, Admin: Admin{Listen: "127.0.0.1:9187", PProf: true}, Log: Log{"json", "debug", true},
		Postgres: []Postgres{
			{
				Listen: "[::1]:6432", SocketMode: 0o777, Upstream: db, TLS: &TLS{"cert.pem", "key.pem", "clients.pem", true, true}, Untokened: "deny",
				ClaimWait: 500 * time.Millisecond, Evict: true, IdleInTransactionTimeout: 5 * time.Minute, AllowReplication: true, MaxConnections: 100,
				HandshakeTimeout: 10 * time.Second, MaxMessage: 64 << 20,
			},
			{
				Listen: "/run/fenceproxy/.s.PGSQL.6432", SocketMode: 0o770, Upstream: db, Untokened: "read-only", ClaimWait: 10 * time.Second,
				HandshakeTimeout: time.Minute, KeepAlive: 30 * time.Second, UserTimeout: 2 * time.Minute, MaxMessage: 256 << 20,
			},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A variable is a value and nothing else, whatever it holds.
func TestExpand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "$HOME $1 $": "$HOME $1 $", "${HOST}": "db.example", "a${HOST}b${HOST}": "adb.examplebdb.example",
		"$${HOST}": "${HOST}", "$$${HOST}": "$${HOST}", "${EMPTY}": "", "${DOLLAR}": "${HOST}", "${YAML}": "a\nuntokened: allow #", "}": "}",
		"$${": "${", "a$${b}${HOST}": "a${b}db.example",
	} {
		if got, err := expand(text, environment); err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"${NOT_SET}": "the environment has no variable NOT_SET", "${HOST": "${HOST has no }", "${}": "${} is not the name", "${a-b}": "${a-b} is not",
		"${HOST:-x}": "is not the name of a variable", "${ HOST}": "is not the name", "${9}": "is not the name",
	} {
		if got, err := expand(text, environment); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("expand(%q) = %q, %v; want %q", text, got, err, says)
		}
	}
	c := mustParse(t, strings.Replace(least, "}}]", "}, tls: {cert: '${YAML}', key: k}}]", 1))
	if p := c.Postgres[0]; p.TLS.Cert != "a\nuntokened: allow #" || p.Untokened != "read-only" {
		t.Errorf("the variable became %+v", p)
	}
	if strings.Contains(strings.Join(strings.Fields(mustFail(t, "log: {level: '${SECRET}'}\n"+least).Error()), " "), "s3cret") {
		t.Error("the error shows what the variable holds")
	}
}

func mustFail(t *testing.T, text string) Problems {
	t.Helper()
	c, err := parse(text)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %+v, %v", c, err)
	}
	return problems
}

func TestFromValues(t *testing.T) {
	t.Parallel()
	c, err := FromValues([]Value{
		{"--postgres-listen", []string{"postgres", "listen"}, "127.0.0.1:6432"},
		{"--postgres-upstream", []string{"postgres", "upstream", "address"}, "${HOST}:5432"},
		{"--postgres-tls-mode", []string{"postgres", "upstream", "tls", "mode"}, "require"},
		{"--untokened", []string{"postgres", "untokened"}, "deny"},
		{"--log-format", []string{"log", "format"}, "json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Postgres[0]
	if len(c.Postgres) != 1 || p.Upstream.Address != "${HOST}:5432" || p.Upstream.TLS.Mode != "require" || p.Untokened != "deny" || c.Log.Format != "json" || p.ClaimWait != 10*time.Second {
		t.Errorf("got %+v", c)
	}
	if got := c.Problem("postgres[0].listen", "is in use").Error(); got != "--postgres-listen: is in use" {
		t.Errorf("got %q", got)
	}
	_, err = FromValues([]Value{
		{"--postgres-listen", []string{"postgres", "listen"}, "6432"},
		{"--postgres-upstream", []string{"postgres", "upstream", "address"}, "db"},
		{"--claim-wait", []string{"postgres", "claim_wait"}, "10s"},
	})
	want := "--postgres-listen: \"6432\" is neither host:port nor the path of a socket, which begins with /\n" +
		"--postgres-upstream: \"db\" is neither host:port nor the path of a socket, which begins with /"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	_, err = FromValues([]Value{{"--claim-wait", []string{"postgres", "claim_wait"}, "10"}, {"--evict", []string{"postgres", "evict"}, "yes"}})
	if err == nil || !strings.Contains(err.Error(), `--claim-wait: "10" is not a duration`) || !strings.Contains(err.Error(), `--evict: "yes" is neither true nor false`) {
		t.Errorf("got %v", err)
	}
}
