package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// reload writes a new configuration and has it read.
func (s *stand) reload(p *clitest.Proxy, text string) {
	s.t.Helper()
	s.file(clitest.JSONLog + text)
	p.Reload()
}

// Sessions outlive a reload; clients that come then get what is new.
func testServeReload(t *testing.T, s *stand) {
	p := s.serve(oneListener)
	addr := p.Addr("127.0.0.1:0")
	busy := s.begun(addr)
	s.reload(p, strings.Replace(oneListener, "upstream", "untokened: allow, upstream", 1))
	s.exec(s.connect(s.via(addr, 0)), "INSERT INTO orders VALUES (2)")
	s.exec(busy, "COMMIT")
	if n := s.orders(); n != 2 {
		t.Errorf("there are %d orders", n)
	}
	s.reload(p, "admin: {listen: ':0', pprof: true}\n"+strings.SplitAfterN(oneListener, "\n", 2)[1])
	p.Await("this takes effect at the next start", "admin.pprof")
	p.Signal(syscall.SIGTERM)
	p.Await("draining")
	busy.Close(t.Context())
	p.Ends(0)
}

// Whoever asks while listeners come and go gets an answer, and what is asked
// holds no reload up for ever.
func TestServeReadyWhileReloading(t *testing.T) {
	t.Parallel()
	config := func(listen ...string) *serveconfig.Config {
		var text strings.Builder
		text.WriteString("postgres:\n")
		for _, address := range listen {
			text.WriteString("  - {listen: '" + address + "', upstream: {address: '127.0.0.1:1'}}\n")
		}
		text.WriteString("s3: [{listen: '127.0.0.2:0', upstream: {endpoint: 'http://127.0.0.1:1', access_key: a, secret_key: b}, clients: [{access_key: " +
			locks.NewID() + ", secret_key: 0123456789abcdef, buckets: ['*']}]}]\n")
		c, err := serveconfig.Parse("f.yaml", []byte(text.String()), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := config("127.0.0.1:0"), config("127.0.0.1:0", "[::1]:0")
	s := newService(&program{&cli.Program{Err: io.Discard}}, one, nil)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = s.ready.Ready(t.Context()) // nobody is at the upstream
			}
		}
	})
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range 1000 {
			err = errors.Join(err, s.apply([]*serveconfig.Config{one, two}[i%2]))
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		panic("a reload hangs") // and shows where
	}
	close(stop)
	asking.Wait()
	s.end()
	if len(s.failed) > 0 {
		t.Errorf("a listener failed: %v", <-s.failed)
	}
}

// Whoever started it so that it outlives a terminal can have it reload all the same.
func testServeReloadUnderNohup(t *testing.T, s *stand) {
	script := filepath.Join(t.TempDir(), "nohup")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntrap '' HUP\nexec "+s.program+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := clitest.StartServe(t, script, s.env, "--config", s.file(clitest.JSONLog+oneListener))
	p.Await(`"listening"`)
	s.reload(p, strings.Replace(oneListener, "upstream", "untokened: allow, upstream", 1))
	s.exec(s.connect(s.via(p.Addr("127.0.0.1:0"), 0)), "INSERT INTO orders VALUES (2)")
}

// A mistake is logged with its place, and everything stays as it was.
func testServeReloadMistakes(t *testing.T, s *stand) {
	p := s.serve(oneListener)
	addr := p.Addr("127.0.0.1:0")
	busy := s.begun(addr)
	taken := s.server.Addr()
	for _, c := range []struct{ text, says string }{
		{"postgres: {}\n", ":2:11: postgres: must be a list"},
		{"\tx\n", ":2:1: this is not YAML"},
		{oneListener + "shutdown_timeout: 5\n", ":4:19: shutdown_timeout: \\\"5\\\" is not a duration"},
		{oneListener[:len(oneListener)-2] + ", {listen: '" + taken + "', upstream: {address: 'SERVER'}}]\n", "postgres[1].listen: cannot listen on " + taken + ": another program"},
		{strings.Replace(oneListener, "upstream", "tls: {cert: DIR/no, key: DIR/no}, upstream", 1), ":3:48: postgres[0].tls.cert: open " + s.dir + "/no: no such file"},
		{strings.Replace(oneListener, "':0'", "'"+taken+"'", 1), "admin.listen: cannot listen on " + taken},
	} {
		s.file(clitest.JSONLog + c.text)
		p.Mistaken(c.says)
	}
	if _, text := p.Get("/metrics"); !strings.Contains(text, "fenceproxy_config_reload_successful 0") {
		t.Error("the metrics do not tell that the reload failed")
	}
	s.exec(s.connect(s.via(addr, 0)), "SELECT 1")
	s.exec(busy, "COMMIT")
	if err := os.Remove(s.file("")); err != nil {
		t.Fatal(err)
	}
	p.Mistaken("read config: ", "no such file or directory")
	s.reload(p, oneListener)
	if _, text := p.Get("/metrics"); !strings.Contains(text, "fenceproxy_config_reload_successful 1") {
		t.Error("the metrics do not tell that the reload worked")
	}
}

// Listeners come and go; one that goes lets its transactions end.
func testServeReloadListeners(t *testing.T, s *stand) {
	listener := func(listen string) string {
		return "  - {listen: '" + listen + "', untokened: allow, upstream: {address: 'SERVER'}}\n"
	}
	const a, b = "127.0.0.1:0", "[::1]:0"
	p := s.serve("postgres:\n" + listener(a))
	addrA := p.Addr(a)
	busy := s.begun(addrA)
	s.reload(p, "postgres:\n"+listener(a)+listener(b))
	addrB := p.Addr(b)
	s.connect(s.via(addrA, 0))
	s.connect(s.via(addrB, 0))

	s.reload(p, "admin: {listen: ':0'}\npostgres:\n"+listener(b))
	p.Await("no longer listening", a)
	if _, err := pgx.Connect(t.Context(), s.via(addrA, 0)); err == nil {
		t.Error("a client got in where nobody is to listen")
	}
	s.connect(s.via(addrB, 0))
	if status, text := p.Get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, text)
	}
	s.exec(busy, "COMMIT")
	p.Await("drained", a)
	if n := s.orders(); n != 1 {
		t.Errorf("there are %d orders", n)
	}
	p.Signal(syscall.SIGTERM)
	p.Ends(0)
}

// Another server behind the same listener: clients that come go there, and no
// connection is refused in between.
func testServeReloadUpstream(t *testing.T, s *stand) {
	link := testenv.NewLink(t, s.server.Addr(), testenv.LinkConfig{})
	for _, listen := range []string{"127.0.0.1:0", filepath.Join(s.dir, "a.sock")} {
		text := "postgres: [{listen: '" + listen + "', untokened: allow, upstream: {address: 'SERVER'}}]\n"
		p := s.serve(text)
		config, err := pgx.ParseConfig(s.via(s.server.Addr(), 0))
		if err != nil {
			t.Fatal(err)
		}
		network, address := "tcp", p.Addr(listen)
		if strings.HasPrefix(listen, "/") {
			network = "unix"
		}
		config.DialFunc = dialTo(network, address)
		connect := func() *pgx.Conn {
			t.Helper()
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		busy := connect()
		s.exec(busy, "BEGIN")
		s.reload(p, strings.Replace(text, "SERVER", link.Addr(), 1))
		p.Await("no longer listening", `"another_upstream":true`)
		there := connect()
		link.Cut() // so it is through the link
		if _, err := there.Exec(t.Context(), "SELECT 1"); err == nil {
			t.Error("the new session is not with the new server")
		}
		s.exec(busy, "COMMIT")
		p.Await(`"msg":"drained"`)
		if conn := connect(); conn.Ping(t.Context()) != nil {
			t.Error("no listener is left")
		}
		p.Signal(syscall.SIGTERM)
		p.Ends(0)
		if _, err := os.Stat(listen); !os.IsNotExist(err) {
			t.Errorf("the socket is left: %v", err)
		}
	}
}

// Certificates are read again; sessions stay.
func testServeReloadTLS(t *testing.T, s *stand) {
	s.certificate("first")
	text := "postgres: [{listen: '127.0.0.1:0', tls: {cert: DIR/tls.crt, key: DIR/tls.key, required: true}, upstream: {address: 'SERVER'}}]\n"
	p := s.serve(text)
	config, err := pgx.ParseConfig(s.via(p.Addr("127.0.0.1:0"), 0))
	if err != nil {
		t.Fatal(err)
	}
	shown := ""
	config.Fallbacks = nil
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		shown = state.PeerCertificates[0].Subject.CommonName
		return nil
	}}
	first, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil || shown != "first" {
		t.Fatalf("shown %q, %v", shown, err)
	}
	s.certificate("second")
	s.reload(p, text)
	second, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil || shown != "second" {
		t.Errorf("shown %q, %v", shown, err)
	}
	s.exec(first, "SELECT 1")
	config.TLSConfig = nil
	if _, err := pgx.ConnectConfig(t.Context(), config); sqlState(err) != "28000" {
		t.Errorf("without TLS: %v", err)
	}
	for _, conn := range []*pgx.Conn{first, second} {
		conn.Close(t.Context())
	}
}

func (s *stand) certificate(name string) {
	s.t.Helper()
	writeCertificate(s.t, s.dir, name)
}

// dialTo connects to one address, whatever is asked for.
func dialTo(network, address string) pgconn.DialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
}
