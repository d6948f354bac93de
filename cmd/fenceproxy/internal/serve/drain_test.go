package serve

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const oneListener = "admin: {listen: ':0', pprof: false}\npostgres: [{listen: '127.0.0.1:0', upstream: {address: 'SERVER'}}]\n"

// A current token writes, a stale one does not, and what happened shows in the
// log and in the metrics, but for who the holder is.
func testServeFences(t *testing.T, s *stand) {
	p := s.serve(oneListener)
	addr := p.Addr("127.0.0.1:0")
	old := s.connect(s.via(addr, 33))
	s.exec(old, "INSERT INTO orders VALUES (1)")
	s.exec(s.connect(s.via(addr, 34)), "INSERT INTO orders VALUES (2)")
	if _, err := old.Exec(t.Context(), "INSERT INTO orders VALUES (3)"); sqlState(err) != "TK001" {
		t.Errorf("the stale token: %v", err)
	}
	if _, err := s.connect(s.via(addr, 0)).Exec(t.Context(), "INSERT INTO orders VALUES (4)"); sqlState(err) != "25006" {
		t.Errorf("no token: %v", err)
	}
	if n := s.orders(); n != 2 {
		t.Errorf("there are %d orders", n)
	}
	p.Await("statement refused", "TK001", `"mark":"generation=0 writer=34 `)
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok", "/metrics": `resource="orders"`, "/": "/metrics",
	} {
		if status, text := p.Get(path); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, name := range []string{"fenceproxy_postgres_sessions{", "fenceproxy_build_info{version=", "fenceproxy_config_reload_successful 1", "go_goroutines", "process_open_fds"} {
		if _, text := p.Get("/metrics"); !strings.Contains(text, name) {
			t.Errorf("no metric %s", name)
		}
	}
	if status, _ := p.Get("/debug/pprof/"); status != 404 {
		t.Errorf("pprof: %d", status)
	}
	p.Signal(syscall.SIGTERM)
	p.Await("shutting down", `"shutdown_timeout":"30s"`)
	p.Ends(0, "stopped")
	if log := p.Log(); strings.Contains(log, "INSERT") || strings.Contains(log, "h33") || strings.Contains(log, "h34") {
		t.Error("the log has a statement or a holder in it")
	}
}

func testServeFlags(t *testing.T, s *stand) {
	p := s.start("--postgres-listen", "127.0.0.1:0", "--postgres-upstream", s.server.Addr(), "--untokened", "allow", "--evict", "--log-format=json", "--log-statements")
	conn := s.connect(s.via(p.Addr("127.0.0.1:0"), 0))
	s.exec(conn, "INSERT INTO orders VALUES (1)")
	if _, err := conn.Exec(t.Context(), "SET fence.token = ''; SELECT 'in the log'"); sqlState(err) != "TK007" {
		t.Errorf("a token and a statement in one message: %v", err)
	}
	p.Await("statement refused", "SELECT 'in the log'")
	p.Reload()
	p.Signal(syscall.SIGINT)
	p.Ends(0, "stopped")
	p = s.start("--postgres-listen", "127.0.0.1:0", "--postgres-upstream", s.server.Addr(), "--evict=perhaps")
	p.Ends(64, `--evict: "perhaps" is neither true nor false; see 'fenceproxy serve --help'`)
}

// Clients find a unix socket by its folder, and it goes with the proxy, or when
// the next one comes.
func testServeSockets(t *testing.T, s *stand) {
	text := "postgres: [{listen: 'DIR:6432', socket_mode: 0700, untokened: allow, upstream: {address: 'SERVER'}}]\n"
	socket := filepath.Join(s.dir, ".s.PGSQL.6432")
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.Port = s.dir, 6432
	for range 2 {
		p := s.serve(text)
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close(t.Context())
		p.Await("session begins", fmt.Sprintf(`"client":"unix:%d"`, os.Getpid()))
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the socket: %v, %v", info, err)
		}
		p.Signal(syscall.SIGKILL) // the socket stays, and is in nobody's way
		<-p.Done
	}
	p := s.serve(text)
	p.Signal(syscall.SIGTERM)
	p.Ends(0)
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func testServePortInUse(t *testing.T, s *stand) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	path := s.file("postgres:\n  - listen: " + taken + "\n    upstream: {address: 'SERVER'}\n")
	s.start("--config", path).Ends(78, "fenceproxy: "+path+":2:13: postgres[0].listen: cannot listen on "+taken+": another program listens there")
	path = s.file("admin:\n  listen: " + taken + "\npostgres: [{listen: '127.0.0.1:0', upstream: {address: 'SERVER'}}]\n")
	s.start("--config", path).Ends(78, "fenceproxy: "+path+":2:11: admin.listen: cannot listen on "+taken)
}

// begun is a session with an open transaction that has written.
func (s *stand) begun(addr string) *pgx.Conn {
	s.t.Helper()
	conn := s.connect(s.via(addr, 34))
	s.exec(conn, "BEGIN")
	s.exec(conn, "INSERT INTO orders VALUES (1)")
	return conn
}

// After SIGTERM an open transaction ends as its client wants, idle sessions are
// told, and nobody else gets in.
func testServeDrain(t *testing.T, s *stand) {
	p := s.serve(oneListener)
	addr := p.Addr("127.0.0.1:0")
	idle, busy := s.connect(s.via(addr, 0)), s.begun(addr)
	p.Signal(syscall.SIGTERM)
	p.Await("draining", `"sessions":`)
	if status, text := p.Get("/readyz"); status != 503 || !strings.Contains(text, "shutting down") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	if _, err := idle.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the idle session goes on")
	}
	if _, err := pgx.Connect(t.Context(), s.via(addr, 0)); err == nil {
		t.Error("another client got in")
	}
	s.exec(busy, "INSERT INTO orders VALUES (2)")
	p.Signal(syscall.SIGHUP) // means nothing any more
	s.exec(busy, "COMMIT")
	p.Ends(0, "stopped")
	if n := s.orders(); n != 2 {
		t.Errorf("there are %d orders", n)
	}
	if status := p.Log(); strings.Contains(status, "cutting") {
		t.Error("sessions were cut")
	}
}

func testServeDrainCut(t *testing.T, s *stand) {
	p := s.serve(oneListener)
	busy := s.begun(p.Addr("127.0.0.1:0"))
	p.Signal(syscall.SIGTERM)
	p.Await("draining")
	p.Signal(syscall.SIGINT)
	p.Ends(130, "fenceproxy: stopped by SIGINT after SIGTERM: what was left was cut")
	if _, err := busy.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("committed")
	}
	if n := s.orders(); n != 0 {
		t.Errorf("there are %d orders", n)
	}
}

func testServeDrainOverdue(t *testing.T, s *stand) {
	p := s.serve("shutdown_timeout: 100ms\n" + oneListener)
	s.begun(p.Addr("127.0.0.1:0"))
	p.Signal(syscall.SIGTERM)
	p.Ends(1, "fenceproxy: sessions or requests did not end in time (shutdown_timeout 100ms): what was left was cut")
	if n := s.orders(); n != 0 {
		t.Errorf("there are %d orders", n)
	}
}

// systemd learns when clients can come, and when they no longer can.
func testServeSystemd(t *testing.T, s *stand) {
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(s.dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	wants := func(want string) {
		t.Helper()
		_ = notify.SetReadDeadline(time.Now().Add(time.Minute))
		var text [64]byte
		if n, err := notify.Read(text[:]); err != nil || string(text[:n]) != want {
			t.Errorf("systemd is told %q, %v; want %q", text[:n], err, want)
		}
	}
	s.env = []string{"NOTIFY_SOCKET=" + filepath.Join(s.dir, "notify")}
	p := s.serve(oneListener)
	wants("READY=1")
	p.Signal(syscall.SIGTERM)
	wants("STOPPING=1")
	p.Ends(0)
}
