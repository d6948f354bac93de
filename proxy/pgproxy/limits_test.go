package pgproxy

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
)

// TestIdleInTransaction: a session that holds up the next holder and does nothing
// is ended; one without a token, or that works, is not.
func TestIdleInTransaction(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	sc := newScene(t, testenv.Postgres(t), Config{IdleInTransaction: limit})
	idle, busy, bare := sc.connect(sc.via(sc.token(1).String())), sc.connect(sc.via(sc.token(1).String())), sc.connect(sc.via(""))
	for _, conn := range []*pgx.Conn{idle, busy, bare} {
		sc.exec(conn, "BEGIN")
		sc.exec(conn, "SELECT 1")
	}
	sc.exec(busy, "SELECT pg_sleep(5)") // longer than the limit
	sc.exec(busy, "COMMIT")
	_, err := idle.Exec(t.Context(), "COMMIT")
	sc.wants(err, "25P03")
	sc.exec(bare, "COMMIT")
}

// TestClientGone: what a client that dies has left running is cancelled, since it
// may hold up the next holder.
func TestClientGone(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{})
	conn := sc.connect(sc.via(sc.token(1).String()))
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT pg_sleep(600) /* left behind */")
		failed <- err
	}()
	running := func() int {
		var n int
		err := sc.connect(sc.url).QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%/* left behind */' AND state = 'active' AND pid <> pg_backend_pid()").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually(t, "it runs", func() bool { return running() == 1 })
	conn.PgConn().Conn().Close()
	<-failed
	eventually(t, "it is cancelled", func() bool { return running() == 0 })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(testLimit); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestLargeMessages: statements, values, names and rows of any size, and a bound
// for those that the fence must read.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{MaxMessage: 1 << 20})
	conn := sc.connect(sc.via(sc.token(1).String()))
	for _, size := range []int{bufferSize - 100, bufferSize, 3*bufferSize + 7, 1<<20 - 100} {
		text := strings.Repeat("x", size)
		sc.exec(conn, "TRUNCATE t")
		sc.exec(conn, "INSERT INTO t VALUES (1, $1)", text+text)
		sc.exec(conn, "INSERT INTO t VALUES (2, '"+text+"')", pgx.QueryExecModeSimpleProtocol)
		for id, want := range map[int]int{1: 2 * size, 2: size} {
			var got string
			if err := conn.QueryRow(t.Context(), "SELECT v FROM t WHERE id = $1", id).Scan(&got); err != nil || len(got) != want {
				t.Fatalf("row %d has %d bytes, want %d: %v", id, len(got), want, err)
			}
		}
	}
	_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (3, '"+strings.Repeat("x", 1<<20)+"')", pgx.QueryExecModeSimpleProtocol)
	sc.wants(err, "54000")
	if n := sc.count(); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// TestLongFunctionCalls: function calls of any size, also of a session that may only
// read.
func TestLongFunctionCalls(t *testing.T) {
	t.Parallel()
	const octetLength = 1374 // octet_length(text)
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		for _, token := range []string{"", sc.token(1).String()} {
			c := sc.raw(sc.via(token))
			for _, size := range []int{1000, bufferSize - 20, 10 * bufferSize} {
				if got := c.play(t, call(octetLength, strings.Repeat("x", size)), query("SELECT 1")); got != "Z:I / SELECT 1 Z:I /" {
					t.Errorf("%q, %d bytes: %s", token, size, got)
				}
			}
		}
	})
}

// TestImpossibleMessages end the session, and take no memory.
func TestImpossibleMessages(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{})
	for name, b := range map[string][]byte{
		"length below itself": {'Q', 0, 0, 0, 3},
		"two gigabytes":       {'Q', 0x7f, 0xff, 0xff, 0xff},
		"negative":            {'P', 0xff, 0xff, 0xff, 0xff},
		"endless name":        append([]byte{'B', 0, 1, 0, 0}, strings.Repeat("n", 2*bufferSize)...),
	} {
		c := sc.raw(sc.via(sc.token(1).String()))
		_ = c.conn.SetDeadline(time.Now().Add(testLimit))
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		m, err := c.Receive()
		if e, ok := m.(*pgproto3.ErrorResponse); !ok || e.Severity != "FATAL" || e.Code != "08P01" {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// TestIdleMemory: a session that idles takes little.
func TestIdleMemory(t *testing.T) {
	const sessions = 1000
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// What is measured is the proxy: 1,000 backends of a real server would take
	// more memory than many machines have.
	accepted := make(chan net.Conn, sessions)
	go pretend(ln, accepted)
	addr, _ := serveProxy(t, Config{Upstream: Upstream{Address: ln.Addr().String()}, Untokened: Allow})
	before := inUse()
	var conns []net.Conn
	for range sessions {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open(t, conn)
		conns = append(conns, conn, <-accepted)
	}
	each := (inUse() - before) / sessions
	t.Logf("%d KiB a session", each>>10)
	if each > 40<<10 { // 5,000 in 200 MiB
		t.Errorf("a session that idles takes %d bytes", each)
	}
	for _, conn := range conns {
		conn.Close()
	}
	ln.Close()
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// open logs in and waits for ReadyForQuery.
func open(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(testLimit))
	f := pgproto3.NewFrontend(conn, conn)
	f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}})
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := f.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			return
		}
	}
}

// pretend serves as a database without the fence that has nothing to say.
func pretend(ln net.Listener, accepted chan<- net.Conn) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		b := pgproto3.NewBackend(conn, conn)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			continue
		}
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if b.Flush() != nil {
			continue
		}
		for range 2 { // what is there, and the statements
			for {
				m, err := b.Receive()
				if err != nil {
					return
				}
				if _, ok := m.(*pgproto3.Execute); ok {
					row := make([][]byte, 2+len(own.Domains()))
					row[0], row[1] = []byte{}, []byte("read committed")
					b.Send(&pgproto3.DataRow{Values: row})
				}
				if _, ok := m.(*pgproto3.Sync); ok {
					break
				}
			}
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if b.Flush() != nil {
				return
			}
		}
		accepted <- conn
	}
}
