package main

import (
	"bufio"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

// BenchmarkIdleSessions is what the process of serve takes for 5,000 sessions
// that idle: its resident memory in MiB. The server behind is one of ours, since
// as many backends of a real one would take more memory than many machines have.
// Each side needs 10,000 file descriptors.
func BenchmarkIdleSessions(b *testing.B) {
	const sessions = 5000
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	go pretendAll(server)
	program := clitest.Built(b)
	for b.Loop() {
		cmd := exec.Command(program, "serve", "--postgres-listen", "127.0.0.1:0", "--postgres-upstream", server.Addr().String(),
			"--untokened", "allow", "--max-connections", strconv.Itoa(sessions))
		addr := listening(b, cmd)
		before := clitest.Resident(b, cmd.Process.Pid)
		conns := make([]net.Conn, 0, sessions)
		for range sessions {
			conns = append(conns, login(b, addr))
		}
		b.ReportMetric(clitest.Resident(b, cmd.Process.Pid), "MiB")
		b.ReportMetric(before, "MiB-without-sessions")
		for _, conn := range conns {
			conn.Close()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	b.ReportMetric(0, "ns/op")
}

// listening starts serve, and returns the address that it says it has.
func listening(tb testing.TB, cmd *exec.Cmd) string {
	tb.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), " address="); ok {
			go func() { // so that the proxy can go on writing
				for lines.Scan() {
				}
			}()
			return strings.Fields(rest)[0]
		}
	}
	tb.Fatal("serve ends without listening")
	return ""
}

// login opens a session.
func login(tb testing.TB, addr string) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	f := pgproto3.NewFrontend(conn, conn)
	f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}})
	if err := f.Flush(); err != nil {
		tb.Fatal(err)
	}
	for {
		switch m, err := f.Receive(); m.(type) {
		case nil:
			tb.Fatal(err)
		case *pgproto3.ErrorResponse:
			tb.Fatalf("%+v", m)
		case *pgproto3.ReadyForQuery:
			return conn
		}
	}
}

// pretendAll serves as a database without the fence, which answers what the
// proxy asks at the start of a session, and nothing else.
func pretendAll(ln net.Listener) {
	var sessions errgroup.Group
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		sessions.Go(func() error {
			defer conn.Close()
			return pretend(conn)
		})
	}
}

func pretend(conn net.Conn) error {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return err
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	columns := 0
	for {
		if err := b.Flush(); err != nil {
			return err
		}
		m, err := b.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.Parse:
			columns = 2 + strings.Count(m.Query, "to_regtype(")
		case *pgproto3.Execute:
			row := make([][]byte, columns) // no such types
			row[0] = []byte{}              // no token
			row[1] = []byte("read committed")
			b.Send(&pgproto3.DataRow{Values: row})
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}
