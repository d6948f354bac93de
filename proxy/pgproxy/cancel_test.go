package pgproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
)

// awaitSleep waits until a session sleeps.
func awaitSleep(t *testing.T, s *secureServer, application string) {
	t.Helper()
	deadline := time.Now().Add(testLimit)
	for {
		n, err := ask(t, s.database, "select count(*)::text from pg_stat_activity where state = 'active' and wait_event = 'PgSleep' and application_name = '"+application+"'")
		if err != nil {
			t.Fatal(err)
		}
		if n == "1" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody sleeps")
		}
	}
}

// Ctrl-C in psql, and cancels of pgx, over what each of them uses, to a server
// in the clear and over TLS (supavisor #174, teleport #9389).
func TestCancel(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		secure := clientTLS(s.authority.issue(t, "127.0.0.1"))
		secure.Required = true
		for name, c := range map[string]struct {
			mode       TLSMode
			clientMode string
		}{
			"plain": {TLSDisable, "disable"}, "TLS": {TLSDisable, "require"}, "TLS twice": {TLSVerifyFull, "require"},
		} {
			config := Config{Upstream: Upstream{Address: s.Addr(), TLSMode: c.mode, TLS: roots(s.authority.pool)}, TLS: secure}
			if c.clientMode == "disable" {
				config.TLS = nil
			}
			f := startFront(t, config)
			through := f.via(t, s.as(t, "by_trust", "", "sslmode", c.clientMode))
			t.Run("psql "+name, func(t *testing.T) {
				t.Parallel()
				cancelPsql(t, s, withParams(t, through, "application_name", "psql "+name), "psql "+name)
			})
			t.Run("pgx "+name, func(t *testing.T) {
				t.Parallel()
				cancelPgx(t, s, withParams(t, through, "application_name", "pgx "+name), "pgx "+name)
			})
		}
	})
}

func cancelPsql(t *testing.T, s *secureServer, databaseURL, application string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "psql", "-X", "-d", databaseURL, "-c", "select pg_sleep(600)")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitSleep(t, s, application)
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if got := out.String(); !strings.Contains(got, "canceling statement due to user request") {
		t.Errorf("psql says %s", got)
	}
}

func cancelPgx(t *testing.T, s *secureServer, databaseURL, application string) {
	t.Helper()
	conn := openConn(t, databaseURL)
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "select pg_sleep(600)")
		failed <- err
	}()
	awaitSleep(t, s, application)
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("CancelRequest: %v", err)
	}
	wantState(t, <-failed, "57014")
	var x string
	if err := conn.QueryRow(t.Context(), "select 'x'", pgx.QueryExecModeExec).Scan(&x); err != nil {
		t.Errorf("after the cancel: %v", err)
	}
}

// A key of protocol 3.2, as long as servers make them, in a cancel over TLS.
func TestCancelWithLongKey(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}, TLS: clientTLS(s.identity)})
		conn := dialRaw(t, f.addr)
		conn.send(startupPacket(protocol30+2, "user", "by_trust", "database", "postgres", "application_name", "long"))
		key := conn.await('K')[pgwire.HeaderSize:]
		if long := len(key) > 8; long != (s.Major() >= 18) {
			t.Errorf("PostgreSQL %d has a key of %d bytes", s.Major(), len(key)-4)
		}
		conn.await('Z')
		query := append([]byte("select pg_sleep(600)"), 0)
		conn.send([]byte{'Q'}, binary.BigEndian.AppendUint32(nil, uint32(4+len(query))), query)
		awaitSleep(t, s, "long")

		canceler, err := tls.Dial("tcp", f.addr, &tls.Config{
			RootCAs: s.authority.pool, NextProtos: []string{alpn}, MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer canceler.Close()
		_, _ = canceler.Write(cancelPacket(key))
		if b, err := io.ReadAll(canceler); len(b) > 0 || err != nil {
			t.Errorf("a cancel request is answered with %q, %v", b, err)
		}
		if e := conn.await('E'); !bytes.Contains(e, []byte("57014")) {
			t.Errorf("got %q", e)
		}
	})
}

// await reads messages up to one of a type, and returns that.
func (c *rawConn) await(kind byte) []byte {
	c.t.Helper()
	for {
		frame, err := readFrame(c)
		if err != nil {
			c.t.Fatalf("no message of type %q: %v", kind, err)
		}
		if frame[0] == kind {
			return frame
		}
	}
}

// The client's connection ends when the server's does, not before (supavisor
// #1148), and nothing is said (risingwave #22626).
func TestCancelIsAwaited(t *testing.T) {
	t.Parallel()
	packet := cancelPacket(make([]byte, 260))
	got, finish := make(chan []byte, 1), make(chan struct{})
	upstream := fakeServer(t, func(conn net.Conn) {
		b, _ := readN(conn, len(packet))
		got <- b
		<-finish
	})
	f := startFront(t, Config{Upstream: upstream})
	conn := dialRaw(t, f.addr)
	conn.send(packet)
	if b := <-got; !bytes.Equal(b, packet) {
		t.Errorf("the server got %q", b)
	}
	drained := make(chan error, 1)
	go func() { drained <- f.Shutdown(context.Background()) }() // does not cut it short
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server is not done, but: %v", err)
	}
	close(finish)
	_ = conn.SetReadDeadline(time.Now().Add(testLimit))
	if b := conn.rest(); len(b) > 0 {
		t.Errorf("got %q", b)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if n := counted(t, f.metrics.cancels); n != 1 {
		t.Errorf("cancels_total is %v", n)
	}
}

// A cancel that cannot be delivered ends like one that can.
func TestCancelWithoutServer(t *testing.T) {
	t.Parallel()
	f := startFront(t, Config{Upstream: noServer})
	for _, packet := range [][]byte{cancelPacket(make([]byte, 8)), cancelPacket(make([]byte, 261))} {
		conn := dialRaw(t, f.addr)
		conn.send(packet)
		if b, err := io.ReadAll(conn); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %q, %v", b, err)
		}
	}
}
