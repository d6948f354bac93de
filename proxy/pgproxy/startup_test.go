package pgproxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/handshake"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay"
)

// rawConn is a connection that a test speaks by hand.
type rawConn struct {
	net.Conn

	t *testing.T
}

func dialRaw(t *testing.T, addr string) *rawConn {
	t.Helper()
	network := "tcp"
	if filepath.IsAbs(addr) {
		network = "unix"
	}
	conn, err := net.DialTimeout(network, addr, testLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testLimit))
	return &rawConn{Conn: conn, t: t}
}

func (c *rawConn) send(b ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(slices.Concat(b...)); err != nil {
		c.t.Errorf("write: %v", err)
	}
}

func (c *rawConn) read(n int) string {
	c.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return string(b)
}

// rest is all that comes until the other side ends the connection.
func (c *rawConn) rest() []byte {
	c.t.Helper()
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("read: %v", err)
	}
	return b
}

// wantFatal reads one ErrorResponse and the end of the connection.
func (c *rawConn) wantFatal(state, text string) {
	c.t.Helper()
	wantFatal(c.t, c.rest(), state, text)
}

func wantFatal(t *testing.T, b []byte, state, text string) {
	t.Helper()
	var e pgproto3.ErrorResponse
	if len(b) < pgwire.HeaderSize || b[0] != 'E' || int(binary.BigEndian.Uint32(b[1:])) != len(b)-1 || e.Decode(b[pgwire.HeaderSize:]) != nil {
		t.Fatalf("got %q, want one ErrorResponse", b)
	}
	if e.Severity != "FATAL" || e.SeverityUnlocalized != "FATAL" || e.Code != state || !strings.Contains(e.Message, text) {
		t.Errorf("got %s %s %s, want FATAL %s %s", e.Severity, e.Code, e.Message, state, text)
	}
}

// noServer is an upstream that no test should reach.
var noServer = Upstream{Address: "127.0.0.1:1"}

// First packets that no server should be asked about, and one that would hurt.
func TestBadFirstPackets(t *testing.T) {
	t.Parallel()
	f := startFront(t, Config{Upstream: noServer})
	secure := startFront(t, Config{Upstream: noServer, TLS: clientTLS(newAuthority(t).issue(t, "127.0.0.1"))})
	early := []byte("\x00\x00\x00\x08 and what should be encrypted")
	huge := binary.BigEndian.AppendUint32(nil, 1<<30)
	for name, c := range map[string]struct {
		f           *front
		send        []byte
		state, text string // or the end of the connection without a word
	}{
		"a query":                  {f, []byte{'Q', 0x7f, 0xff, 0xff, 0xff}, "08P01", "invalid length"},
		"1 GB":                     {f, huge, "08P01", "invalid length"},
		"longer than the server's": {f, slices.Concat([]byte{0, 0, 0x27, 0x15}, make([]byte, 10_001)), "08P01", "invalid length"},
		"too short":                {f, []byte{0, 0, 0, 7, 0, 3, 0}, "08P01", "invalid length"},
		"length 0":                 {f, make([]byte, 4), "08P01", "invalid length"},
		"HTTP":                     {f, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "08P01", "invalid length"},
		"protocol 2":               {f, startupPacket(2<<16, "user", "x"), "0A000", "unsupported frontend protocol 2.0"},
		"protocol 4":               {f, startupPacket(4<<16, "user", "x"), "0A000", "unsupported frontend protocol 4.0"},
		"SSLRequest with a tail":   {f, startupPacket(codeSSL), "0A000", "unsupported frontend protocol 1234.5679"},
		"no terminator":            {f, []byte("\x00\x00\x00\x0e\x00\x03\x00\x00user\x00x"), "08P01", "expected terminator"},
		"terminator inside":        {f, startupPacket(protocol30, "user", "x", "", "y"), "08P01", "expected terminator"},
		"no parameters":            {f, request(protocol30), "08P01", "expected terminator"},
		"data behind SSLRequest":   {secure, append(request(codeSSL), early...), "08P01", "unencrypted data after SSL request"},
		"data behind GSSENC":       {secure, append(request(codeGSSENC), early...), "08P01", "unencrypted data after SSL request"},
		"TLS where there is none":  {f, []byte{tlsRecordHandshake, 3, 1, 0, 5}, "", ""},
		"no TLS in TLS":            {secure, []byte{tlsRecordHandshake, 'x', 'y', 'z', 0, 0}, "", ""},
		"nothing":                  {f, nil, "", ""},
		"a beginning":              {f, []byte{0, 0, 0, 9, 0, 3}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dialRaw(t, c.f.addr)
			conn.send(c.send)
			if c.state != "" {
				conn.wantFatal(c.state, c.text)
				return
			}
			_ = conn.Conn.(*net.TCPConn).CloseWrite()
			if b := conn.rest(); len(b) > 0 && b[0] != 0x15 { // a TLS alert
				t.Errorf("got %q, want nothing", b)
			}
		})
	}
}

// Requests for encryption come in any order, each once, and in any segments.
func TestRequestsBeforeStartup(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
	for name, codes := range map[string][]uint32{
		"none": nil, "GSS, SSL": {codeGSSENC, codeSSL}, "SSL, GSS": {codeSSL, codeGSSENC}, "GSS": {codeGSSENC},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dialRaw(t, f.addr)
			for _, code := range codes {
				conn.send(request(code))
				if got := conn.read(1); got != "N" {
					t.Errorf("got %q", got)
				}
			}
			for _, b := range startupPacket(protocol30, "user", "nobody") {
				conn.send([]byte{b})
			}
			if got := conn.read(1); got != "R" {
				t.Errorf("got %q, want the server's request for authentication", got)
			}
		})
	}
	for name, code := range map[string]uint32{"SSL twice": codeSSL, "GSS twice": codeGSSENC} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dialRaw(t, f.addr)
			conn.send(request(code))
			conn.read(1)
			conn.send(request(code))
			conn.wantFatal("0A000", "unsupported frontend protocol 1234")
		})
	}
}

// A minor version or an option that the server may not know is the server's
// affair (pgcat #706, pgbouncer #1459): the same bytes come back, once.
func TestVersionsAreTheServers(t *testing.T) {
	t.Parallel()
	eachSecure(t, func(t *testing.T, s *secureServer) {
		agreed := make(chan uint32, 1)
		f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
		f.session = func(ctx context.Context, l *handshake.Login, c *relay.Config, drain <-chan struct{}) error {
			agreed <- l.Protocol
			return copySession(ctx, l, c, drain)
		}
		latest := uint32(protocol30)
		if s.Major() >= 18 {
			latest += 2
		}
		for _, c := range []struct {
			name   string
			packet []byte
			agreed uint32 // 0: refused
		}{
			{"3.0", startupPacket(protocol30, "user", "by_trust", "database", "postgres"), protocol30},
			{"3.2", startupPacket(protocol30+2, "user", "by_trust", "database", "postgres"), latest},
			{"3.9999", startupPacket(protocol30+9999, "user", "by_trust", "database", "postgres", "_pq_.x", "1", "_pq_.test", ""), latest},
			{"3.0 with an option", startupPacket(protocol30, "user", "by_trust", "database", "postgres", "_pq_.x", ""), protocol30},
			{"user alone", startupPacket(protocol30, "user", "postgres"), 0},
			{"no user", startupPacket(protocol30, "database", "postgres"), 0},
			{"no such user", startupPacket(protocol30, "user", "nobody"), 0},
		} {
			t.Run(c.name, func(t *testing.T) { // one after the other: they share agreed
				want, got := greeting(t, s.Addr(), c.packet), greeting(t, f.addr, c.packet)
				if !bytes.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				if c.agreed == 0 {
					return
				}
				if v := <-agreed; v != c.agreed {
					t.Errorf("agreed on %d.%d, want %d.%d", v>>16, v&0xffff, c.agreed>>16, c.agreed&0xffff)
				}
			})
		}
	})
}

// greeting is what a server says to a StartupMessage, up to and without what
// differs each time: a salt or a key.
func greeting(t *testing.T, addr string, packet []byte) []byte {
	t.Helper()
	conn := dialRaw(t, addr)
	conn.send(packet)
	var all []byte
	for {
		frame, err := readFrame(conn)
		if err != nil {
			return all
		}
		switch {
		case frame[0] == 'K':
			frame = frame[:pgwire.HeaderSize] // with the length of the key
		case frame[0] == 'Z', frame[0] == 'R' && frame[8] != authOk:
			return append(all, frame...)
		}
		all = append(all, frame...)
	}
}

func TestSlowClients(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	f := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}, HandshakeTimeout: 300 * time.Millisecond})
	packet := startupPacket(protocol30, "user", "postgres")
	for name, sent := range map[string][]byte{"nothing": nil, "a part": packet[:9], "no password": packet} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dialRaw(t, f.addr)
			conn.send(sent)
			b := conn.rest()
			if name == "no password" {
				if b[0] != 'R' {
					t.Fatalf("got %q", b)
				}
				b = b[1+binary.BigEndian.Uint32(b[1:]):]
			}
			wantFatal(t, b, "57014", "authentication due to timeout")
		})
	}
}

func TestReplication(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	db := s.Database(t)
	refusing := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}})
	allowing := startFront(t, Config{Upstream: Upstream{Address: s.Addr()}, AllowReplication: true})
	seen := make(chan bool, 1)
	allowing.session = func(ctx context.Context, l *handshake.Login, c *relay.Config, drain <-chan struct{}) error {
		seen <- l.Replication
		return copySession(ctx, l, c, drain)
	}
	for _, value := range []string{"true", "database", "on", "1", "yes", "t", "nonsense", ""} {
		conn := dialRaw(t, refusing.addr)
		conn.send(startupPacket(protocol30, "user", "x", "replication", value, "replication", "false"))
		conn.wantFatal("TK007", "replication")
	}
	for _, value := range []string{"false", "off", "0", "no", "F", "of"} {
		wantAnswer(t, refusing.via(t, db, "replication", value, "default_query_exec_mode", "simple_protocol"), "select 'x'", "x")
	}
	conn := openConn(t, allowing.via(t, db, "replication", "database", "default_query_exec_mode", "simple_protocol"))
	if _, err := conn.PgConn().Exec(t.Context(), "IDENTIFY_SYSTEM").ReadAll(); err != nil {
		t.Error(err)
	}
	if !<-seen {
		t.Error("the session is not told that it is a replication connection")
	}
}
