package pgproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
)

// outcome is what a client sees of its connection: nothing, or the server's error
// in full.
func outcome(err error) string {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return "connected"
	case errors.As(err, &pg):
		return pg.Severity + " " + pg.Code + " " + pg.Message + pg.Detail + pg.Hint
	default:
		return err.Error()
	}
}

func connect(t *testing.T, databaseURL string) string {
	t.Helper()
	_, err := ask(t, databaseURL, "select 'x'")
	return outcome(err)
}

// signs says whether a user's way to authenticate is SCRAM, which a client signs
// together with what it knows of the TLS.
func signs(user string, tlsWithServer bool) bool {
	return user == "by_scram" || user == "by_tls" || user == "by_cert" && !tlsWithServer
}

// Every method, right and wrong password, plain and TLS on either side: as at the
// server itself.
func TestAuthenticationIsTheServers(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		other := s.authority.issue(t, "127.0.0.1")
		for name, c := range map[string]struct {
			mode  TLSMode
			shown *identity
		}{
			"plain":            {TLSDisable, other},
			"TLS":              {TLSRequire, other},
			"TLS, same":        {TLSRequire, s.identity},
			"TLS if it can be": {TLSPrefer, other},
		} {
			f := startFront(t, Config{Upstream: Upstream{Address: s.Addr(), TLSMode: c.mode}, TLS: clientTLS(c.shown)})
			for _, user := range methods {
				for _, password := range []string{rightPassword, "wrong"} {
					for _, clientMode := range []string{"disable", "require"} {
						t.Run(strings.Join([]string{name, user, password, clientMode}, " "), func(t *testing.T) {
							t.Parallel()
							serverMode := "disable"
							if c.mode != TLSDisable {
								serverMode = "require"
							}
							unbound := clientMode == "require" && c.shown == other && serverMode == "require" && signs(user, true)
							if unbound && c.mode == TLSPrefer {
								serverMode, unbound = "disable", false
							}
							want := connect(t, s.as(t, user, password, "sslmode", serverMode))
							if unbound {
								want = outcome(asError(refusal.Binding()))
							}
							got := connect(t, f.via(t, s.as(t, user, password, "sslmode", clientMode)))
							if got != want {
								t.Errorf("got %s\nwant %s", got, want)
							}
						})
					}
				}
			}
		}
	})
}

func asError(r *refusal.Error) error {
	return &pgconn.PgError{Severity: r.Severity, Code: r.State, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// P24: who insists on a binding gets one or nothing; who does without gets in.
func TestChannelBinding(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		same := startFront(t, Config{Upstream: Upstream{Address: s.Addr(), TLSMode: TLSRequire}, TLS: clientTLS(s.identity)})
		other := startFront(t, Config{Upstream: Upstream{Address: s.Addr(), TLSMode: TLSRequire}, TLS: clientTLS(s.authority.issue(t, "127.0.0.1"))})
		plain := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}, TLS: clientTLS(s.identity)})
		for _, c := range []struct {
			name     string
			f        *front
			binding  string
			pgx, lib string // "" or a part of the client's error
		}{
			{"same", same, "require", "", ""},
			{"same", same, "disable", "", ""},
			{"other", other, "require", "does not support SCRAM-SHA-256-PLUS", "did not offer an authentication method that supports channel binding"},
			{"other", other, "prefer", "does not pass the proxy", "does not pass the proxy"},
			{"other", other, "disable", "", ""},
			{"plain", plain, "require", "does not support SCRAM-SHA-256-PLUS", "did not offer an authentication method that supports channel binding"},
			{"plain", plain, "prefer", "", ""},
		} {
			t.Run(c.name+" "+c.binding, func(t *testing.T) {
				t.Parallel()
				through := c.f.via(t, s.as(t, "by_scram", rightPassword, "sslmode", "require", "channel_binding", c.binding))
				wantError(t, "pgx", connect(t, through), c.pgx, "connected")
				out, _ := psql(t, through, "select 'connected'")
				wantError(t, "psql", out, c.lib, "connected")
			})
		}
	})
}

func wantError(t *testing.T, who, got, want, without string) {
	t.Helper()
	if want == "" {
		want = without
	}
	if !strings.Contains(got, want) {
		t.Errorf("%s: got %s, want %s", who, got, want)
	}
}

// Every sslmode of clients, with and without TLS at the proxy.
func TestClientModes(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		upstream := Upstream{Address: s.Addr()}
		id := s.authority.issue(t, "127.0.0.1")
		optional, none := clientTLS(id), startFront(t, Config{Upstream: upstream})
		required := clientTLS(id)
		required.Required = true
		misnamed := clientTLS(s.authority.issue(t, "elsewhere.example"))
		fronts := map[string]*front{
			"optional": startFront(t, Config{Upstream: upstream, TLS: optional}),
			"required": startFront(t, Config{Upstream: upstream, TLS: required}),
			"misnamed": startFront(t, Config{Upstream: upstream, TLS: misnamed}),
			"none":     none,
		}
		root := s.authority.file(t)
		refused := "requires TLS"
		for _, c := range []struct{ front, mode, pgx, lib string }{
			{"optional", "disable", "", ""},
			{"optional", "allow", "", ""},
			{"optional", "prefer", "", ""},
			{"optional", "require", "", ""},
			{"optional", "verify-ca", "", ""},
			{"optional", "verify-full", "", ""},
			{"required", "disable", refused, refused},
			{"required", "allow", "", ""},
			{"required", "prefer", "", ""},
			{"required", "verify-full", "", ""},
			{"misnamed", "verify-ca", "", ""},
			{"misnamed", "verify-full", "x509", "does not match host name"},
			{"none", "prefer", "", ""},
			{"none", "require", "refused TLS", "does not support SSL"},
		} {
			t.Run(c.front+" "+c.mode, func(t *testing.T) {
				t.Parallel()
				through := fronts[c.front].via(t, s.as(t, "by_scram", rightPassword, "sslmode", c.mode, "sslrootcert", root))
				wantError(t, "pgx", connect(t, through), c.pgx, "connected")
				out, _ := psql(t, through, "select 'connected'")
				wantError(t, "psql", out, c.lib, "connected")
			})
		}
		t.Run("direct", func(t *testing.T) {
			t.Parallel()
			through := fronts["optional"].via(t, s.as(t, "by_scram", rightPassword, "sslmode", "require", "sslnegotiation", "direct"))
			wantError(t, "pgx", connect(t, through), "", "connected")
			through = none.via(t, s.as(t, "by_scram", rightPassword, "sslmode", "require", "sslnegotiation", "direct"))
			if got := connect(t, through); got == "connected" {
				t.Error("direct TLS where there is none")
			}
		})
		t.Run("direct without ALPN", func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", fronts["optional"].addr, &tls.Config{RootCAs: s.authority.pool, MinVersion: tls.VersionTLS12})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = conn.Write(startupPacket(protocol30, "user", "by_trust"))
			if b, err := io.ReadAll(conn); len(b) > 0 || err != nil {
				t.Errorf("got %q, %v", b, err)
			}
		})
	})
}

// What the proxy wants to see of the server, as sslmode says.
func TestServerModes(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		wrong := newAuthority(t).pool
		_, port, _ := net.SplitHostPort(s.Addr())
		byName := "localhost:" + port // which the certificate does not have
		unverified := "FATAL 08001 the proxy cannot connect to the server: the server's certificate cannot be verified"
		tooOld := ""
		if s.Major() < 17 {
			tooOld = "FATAL 08001 the proxy cannot connect to the server: "
		}
		for name, c := range map[string]struct {
			mode    TLSMode
			address string
			config  *tls.Config
			direct  bool
			want    string
		}{
			"require":                    {mode: TLSRequire},
			"require, right authority":   {mode: TLSRequire, config: roots(s.authority.pool)},
			"require, wrong authority":   {mode: TLSRequire, config: roots(wrong), want: unverified},
			"verify-ca":                  {mode: TLSVerifyCA, config: roots(s.authority.pool), address: byName},
			"verify-ca, wrong authority": {mode: TLSVerifyCA, config: roots(wrong), want: unverified},
			"verify-ca, system":          {mode: TLSVerifyCA, want: unverified},
			"verify-full":                {mode: TLSVerifyFull, config: roots(s.authority.pool)},
			"verify-full, wrong name":    {mode: TLSVerifyFull, config: roots(s.authority.pool), address: byName, want: unverified},
			"verify-full, named": {mode: TLSVerifyFull, address: byName, config: &tls.Config{
				RootCAs: s.authority.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12,
			}},
			"prefer, wrong authority": {mode: TLSPrefer, config: roots(wrong)},
			"direct":                  {mode: TLSVerifyFull, config: roots(s.authority.pool), direct: true, want: tooOld},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if c.address == "" {
					c.address = s.Addr()
				}
				f := startFront(t, Config{Upstream: Upstream{Address: c.address, TLSMode: c.mode, TLS: c.config, DirectTLS: c.direct}})
				through := f.via(t, s.as(t, "by_scram", rightPassword))
				got, err := ask(t, through, "select 'TLS ' || ssl from pg_stat_ssl where pid = pg_backend_pid()")
				if err != nil {
					got = outcome(err)
				}
				wantError(t, "pgx", got, c.want, "TLS true")
			})
		}
	})
}

func roots(pool *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// A user who is to show a certificate shows it to the proxy, which shows its own
// to the server.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		secure := clientTLS(s.authority.issue(t, "127.0.0.1"))
		secure.Config.ClientCAs = s.authority.pool
		secure.VerifyUser = true
		own := roots(s.authority.pool)
		own.Certificates = []tls.Certificate{s.authority.issue(t, "by_cert").Certificate}
		c := Config{Upstream: Upstream{Address: s.Addr(), TLSMode: TLSVerifyFull, TLS: own}, TLS: secure}
		f := startFront(t, c)
		byCert := s.as(t, "by_cert", "", "sslmode", "require")
		refused := outcome(asError(refusal.Certificate("by_cert")))
		for name, c := range map[string]struct {
			params []string
			want   string
		}{
			"own":       {s.authority.issue(t, "by_cert").files(t), "connected"},
			"another's": {s.authority.issue(t, "by_trust").files(t), refused},
			"none":      {nil, refused},
			"plain":     {[]string{"sslmode", "disable"}, refused},
			"unsigned":  {newAuthority(t).issue(t, "by_cert").files(t), "tls: "},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wantError(t, "pgx", connect(t, f.via(t, byCert, c.params...)), c.want, "")
			})
		}
		t.Run("required", func(t *testing.T) {
			t.Parallel()
			c := c
			tlsRequired := *secure
			tlsRequired.Config = secure.Config.Clone()
			tlsRequired.Config.ClientAuth = tls.RequireAndVerifyClientCert
			c.TLS = &tlsRequired
			f := startFront(t, c)
			wantError(t, "pgx", connect(t, f.via(t, byCert)), "tls: ", "")
			wantError(t, "pgx", connect(t, f.via(t, byCert, s.authority.issue(t, "by_cert").files(t)...)), "", "connected")
		})
	})
}

// A certificate that is reloaded is shown to those who connect then; who is
// connected stays.
func TestReloadOfCertificates(t *testing.T) {
	t.Parallel()
	s := startSecure(t, 0)
	c := Config{Upstream: Upstream{Address: s.Addr()}, TLS: clientTLS(s.authority.issue(t, "127.0.0.1"))}
	f := startFront(t, c)
	before := f.via(t, s.as(t, "by_scram", rightPassword, "sslmode", "verify-full", "sslrootcert", s.authority.file(t)))
	renewed := newAuthority(t)
	after := withParams(t, before, "sslrootcert", renewed.file(t))
	conn := openConn(t, before)

	c.TLS = clientTLS(renewed.issue(t, "127.0.0.1"))
	if err := f.Reload(c); err != nil {
		t.Fatal(err)
	}
	wantError(t, "pgx", connect(t, after), "", "connected")
	wantError(t, "pgx", connect(t, before), "x509", "")
	if err := conn.Ping(context.Background()); err != nil {
		t.Errorf("session from before: %v", err)
	}
	c.Upstream.Address = "elsewhere:5432"
	if err := f.Reload(c); err == nil {
		t.Error("the upstream's address can be reloaded")
	}
}
