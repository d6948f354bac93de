package pgproxy

import (
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
)

// fakeServer is an upstream that does what f does with each connection, which
// ends with it.
func fakeServer(t *testing.T, f func(net.Conn)) Upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() {
		ln.Close()
		<-over
	})
	go func() {
		defer close(over)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(testLimit))
			f(conn)
			conn.Close()
		}
	}()
	return Upstream{Address: ln.Addr().String()}
}

// talk is a server that says these things after the StartupMessage.
func talk(t *testing.T, said ...[]byte) Upstream {
	t.Helper()
	return fakeServer(t, func(conn net.Conn) {
		readStartup(conn)
		_, _ = conn.Write(slices.Concat(said...))
		_, _ = io.Copy(io.Discard, conn)
	})
}

// What a server says before AuthenticationOk, in the forms that there are of it.
func TestServersWords(t *testing.T) {
	t.Parallel()
	bare := frame('E', "\x00") // pgbouncer CVE-2026-6666
	notice := frame('N', "SNOTICE\x00Mhello\x00\x00")
	for name, c := range map[string]struct {
		said [][]byte
		want []byte // or a refusal
	}{
		"an error without a SQLSTATE":      {[][]byte{bare}, bare},
		"an error of protocol 2":           {[][]byte{[]byte("Ecould not fork new process\n\x00")}, []byte("Ecould not fork new process\n\x00")},
		"a notice":                         {[][]byte{notice, bare}, slices.Concat(notice, bare)},
		"an error after a request":         {[][]byte{auth(authSASLFinal, "v=x"), bare}, slices.Concat(auth(authSASLFinal, "v=x"), bare)},
		"ReadyForQuery":                    {[][]byte{readyIdle}, nil},
		"a key":                            {[][]byte{frame('K', "12345678")}, nil},
		"an authentication without a code": {[][]byte{frame('R', "\x00")}, nil},
		"a message that is too long":       {[][]byte{{'R', 0x7f, 0xff, 0xff, 0xff, 0}}, nil},
		"a message that is too short":      {[][]byte{{'N', 0, 0, 0, 3}}, nil},
		"only SCRAM-SHA-256-PLUS":          {[][]byte{auth(authSASL, scramPlus, "\x00\x00"), bare}, slices.Concat(auth(authSASL, scramPlus, "\x00\x00"), bare)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFront(t, Config{Upstream: fakeServer(t, func(conn net.Conn) {
				readStartup(conn)
				_, _ = conn.Write(slices.Concat(c.said...))
			})})
			conn := dialRaw(t, f.addr)
			conn.send(startupPacket(protocol30, "user", "x"))
			if name == "only SCRAM-SHA-256-PLUS" { // over plain TCP: not ours to judge
				conn.send(frame('p', "x"))
			}
			got := conn.rest()
			switch {
			case c.want == nil:
				wantFatal(t, got, "08006", "closed the connection")
			case string(got) != string(c.want):
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Without BackendKeyData from the server there is none for the client
// (teleport #68711).
func TestNoKeyIsInvented(t *testing.T) {
	t.Parallel()
	said := slices.Concat(auth(authOk), frame('S', "server_version\x0099\x00"), readyIdle)
	f := startFront(t, Config{Upstream: talk(t, said)})
	conn := dialRaw(t, f.addr)
	conn.send(startupPacket(protocol30, "user", "x"))
	if got := conn.read(len(said)); got != string(said) {
		t.Errorf("got %q", got)
	}
}

// What is wrong with the server is told, and not where it is.
func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	silent := fakeServer(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	answer := func(b string) Upstream {
		u := fakeServer(t, func(conn net.Conn) {
			_, _ = readN(conn, minStartup)
			_, _ = conn.Write([]byte(b))
			_, _ = io.Copy(io.Discard, conn)
		})
		u.TLSMode = TLSPrefer
		return u
	}
	never := silent
	never.TLSMode, never.ConnectTimeout = TLSPrefer, 200*time.Millisecond
	plain := talk(t)
	plain.TLSMode = TLSRequire
	for name, c := range map[string]struct {
		upstream    Upstream
		state, text string
	}{
		"refuses":            {noServer, "08001", "connection refused"},
		"has no socket":      {Upstream{Address: filepath.Join(t.TempDir(), "none")}, "08001", "its socket does not exist"},
		"has no name":        {Upstream{Address: "none.invalid:5432"}, "08001", "its host name cannot be resolved"},
		"has no TLS":         {plain, "08001", "the server does not support TLS"},
		"never answers":      {never, "08001", "timeout expired"},
		"answers too much":   {answer("Nxxx"), "08001", "connection failed"},
		"answers an error":   {answer("E"), "08001", "connection failed"}, // CVE-2024-10977
		"answers no TLS":     {answer("S"), "08001", ""},
		"closes at once":     {fakeServer(t, func(net.Conn) {}), "08006", "closed the connection to the proxy"},
		"closes in midst":    {fakeServer(t, func(conn net.Conn) { readStartup(conn); _, _ = conn.Write([]byte("R\x00")) }), "08006", "closed the connection to the proxy"},
		"closes after start": {fakeServer(t, readStartup), "08006", "closed the connection to the proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.upstream.ConnectTimeout = max(c.upstream.ConnectTimeout, 200*time.Millisecond)
			if name != "never answers" && name != "answers no TLS" {
				c.upstream.ConnectTimeout = testLimit
			}
			f := startFront(t, Config{Upstream: c.upstream})
			conn := dialRaw(t, f.addr)
			conn.send(startupPacket(protocol30, "user", "x"))
			got := conn.rest()
			wantFatal(t, got, c.state, c.text)
			if strings.Contains(string(got), "127.0.0.1") || strings.Contains(string(got), "invalid") {
				t.Errorf("tells where the server is: %q", got)
			}
		})
	}
}

// GSS and SSPI: either side may be the next to speak, and the client's next
// message after AuthenticationOk is the session's.
func TestEitherSideSpeaks(t *testing.T) {
	t.Parallel()
	const gss, gssContinue = 7, 8
	upstream := fakeServer(t, func(conn net.Conn) {
		readStartup(conn)
		_, _ = conn.Write(auth(gss))
		token, _ := readFrame(conn)
		_, _ = conn.Write(auth(gssContinue, string(token[pgwire.HeaderSize:])))
		token, _ = readFrame(conn) // which the client sends
		_, _ = conn.Write(auth(gssContinue, string(token[pgwire.HeaderSize:])))
		_, _ = conn.Write(auth(authOk)) // without waiting for one
		_, _ = io.Copy(conn, conn)
	})
	for range 20 {
		f := startFront(t, Config{Upstream: upstream})
		conn := dialRaw(t, f.addr)
		conn.send(startupPacket(protocol30, "user", "x"))
		conn.read(len(auth(gss)))
		conn.send(frame('p', "one"))
		if got, want := conn.read(len(auth(gssContinue, "one"))), auth(gssContinue, "one"); got != string(want) {
			t.Errorf("got %q, want %q", got, want)
		}
		conn.send(frame('p', "two"))
		want := slices.Concat(auth(gssContinue, "two"), auth(authOk))
		if got := conn.read(len(want)); got != string(want) {
			t.Errorf("got %q, want %q", got, want)
		}
		conn.send(frame('Q', "echo\x00"))
		if got, want := conn.read(10), frame('Q', "echo\x00"); got != string(want) {
			t.Errorf("got %q, want %q", got, want)
		}
		f.stop()
	}
}

// What a client says instead of its password.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for _, request := range [][]byte{auth(authCleartext), auth(authSASL, scram, "\x00\x00"), auth(8, "x")} {
		f := startFront(t, Config{Upstream: talk(t, request)})
		for _, c := range []struct {
			send []byte
			text string
		}{
			{frame('Q', "select 1\x00"), "expected password response, got message type 81"},
			{[]byte{'p', 0x7f, 0xff, 0xff, 0xff}, "invalid message length"},
			{[]byte{'p', 0, 0, 0, 0}, "invalid message length"},
		} {
			conn := dialRaw(t, f.addr)
			conn.send(startupPacket(protocol30, "user", "x"))
			conn.read(len(request))
			conn.send(c.send)
			conn.wantFatal("08P01", c.text)
		}
	}
}
