package handshake

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
)

// script is a connection from which given bytes come, in given segments, and
// then the end; what is written to it is kept.
type script struct {
	mu      sync.Mutex
	in      []byte
	segment int
	out     bytes.Buffer
	expired bool
}

func (c *script) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.expired:
		return 0, os.ErrDeadlineExceeded
	case len(c.in) == 0:
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.segment)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *script) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (c *script) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = !at.IsZero() && at.Before(time.Now())
	return nil
}

func (c *script) SetDeadline(at time.Time) error     { return c.SetReadDeadline(at) }
func (c *script) SetWriteDeadline(_ time.Time) error { return nil }
func (c *script) Close() error                       { return nil }
func (c *script) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (c *script) RemoteAddr() net.Addr               { return &net.TCPAddr{} }

// withoutServer is a config whose server is not there.
func withoutServer(tb testing.TB) *Config {
	tb.Helper()
	return &Config{
		Upstream: Upstream{Address: socket.Address{Network: "unix", Where: filepath.Join(tb.TempDir(), "none.sock")}, ConnectTimeout: time.Minute},
		Timeout:  time.Minute,
		Metrics: Metrics{
			Refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused_total", Help: "By cause."}, []string{"cause"}),
			Cancels: prometheus.NewCounter(prometheus.CounterOpts{Name: "cancels_total", Help: "Relayed."}),
		},
	}
}

// newHandshake is one of a client that finds room.
func newHandshake(t *testing.T, config *Config, client net.Conn) *Handshake {
	t.Helper()
	return New(t.Context(), config, client, func() bool { return true }, slog.New(slog.DiscardHandler))
}

// wantWellFormed wants an error to be one that a client can read, or none that
// it is told.
func wantWellFormed(t *testing.T, err error) {
	t.Helper()
	var r *refusal.Error
	if !errors.As(err, &r) {
		return
	}
	b := r.Wire()
	var e pgproto3.ErrorResponse
	if int(binary.BigEndian.Uint32(b[1:])) != len(b)-1 || e.Decode(b[headerSize:]) != nil || len(e.Code) != 5 {
		t.Errorf("%q is no ErrorResponse", b)
	}
}

// FuzzFirstPacket: whatever comes first ends in a StartupMessage that the server
// reads as the proxy does, or in an error; the proxy says N at most.
func FuzzFirstPacket(f *testing.F) {
	plain := startupPacket(protocol30, "user", "me", "database", "base", "application_name", "app")
	for _, packet := range [][]byte{
		nil, plain, slices.Concat(request(codeSSL), plain), slices.Concat(request(codeGSSENC), request(codeSSL), plain),
		startupPacket(protocol30+2, "user", "me", "replication", "Yes", "_pq_.x", ""), startupPacket(protocol30, "", "x"),
		cancelPacket(make([]byte, 8)),
		{tlsRecordHandshake, 3, 1},
		{'Q', 0x7f, 0xff, 0xff, 0xff},
		request(protocol30),
	} {
		f.Add(packet, 1)
		f.Add(packet, 1000)
	}
	config := withoutServer(f)
	f.Fuzz(func(t *testing.T, packet []byte, segment int) {
		client := &script{in: bytes.Clone(packet), segment: max(segment, 1)}
		h := newHandshake(t, config, client)
		s, err := h.open(t.Context())
		wantWellFormed(t, err)
		if out := client.out.String(); len(out) > 2 || len(bytes.Trim([]byte(out), "N")) > 0 {
			t.Errorf("the proxy says %q", out)
		}
		if err != nil {
			return
		}
		if used := packet[:len(packet)-len(client.in)]; !bytes.HasSuffix(used, s.packet) || len(s.packet) > maxStartup {
			t.Fatalf("%q is not the end of %q", s.packet, used)
		}
		var m pgproto3.StartupMessage
		if m.Decode(s.packet[4:]) != nil || m.ProtocolVersion != s.version {
			return // pgproto3 knows fewer versions
		}
		database := m.Parameters["database"]
		if database == "" {
			database = m.Parameters["user"]
		}
		if s.user != m.Parameters["user"] || s.database != database || s.application != m.Parameters["application_name"] {
			t.Errorf("%+v is %+v", m, s)
		}
		if v, set := m.Parameters["replication"]; set && !isFalse(v) && !s.replication {
			t.Errorf("replication=%q is let through", v)
		}
	})
}

// FuzzAuthentication: whatever both sides say, it comes to an end, and the client
// gets no message that the server did not send, nor half of one.
func FuzzAuthentication(f *testing.F) {
	sasl := auth(authSASL, scramPlus, "\x00", scram, "\x00\x00")
	answer := frame('p', scram, "\x00\x00\x00\x00\x03", "y,,")
	for _, server := range [][]byte{
		auth(authOk), slices.Concat(sasl, auth(authSASLContinue, "r=x"), auth(authSASLFinal, "v=x"), auth(authOk)),
		slices.Concat(auth(authMD5, "salt"), frame('N', "\x00"), auth(authOk)), frame('E', "\x00"), []byte("Eold\n\x00"),
		slices.Concat(frame('v', "\x00\x03\x00\x00\x00\x00\x00\x00"), auth(7), auth(8, "x"), auth(authOk)), frame('v'),
		{'R', 0xff, 0xff, 0xff, 0xff},
		auth(authSASL), auth(authSASL, "\x00"), auth(authSASL, scramPlus, "\x00\x00"),
	} {
		f.Add(server, answer, 1)
		f.Add(server, slices.Concat(frame('p', "x"), frame('p')), 100)
	}
	config := withoutServer(f)
	f.Fuzz(func(t *testing.T, server, client []byte, segment int) {
		up, down := &script{in: bytes.Clone(server), segment: max(segment, 1)}, &script{in: bytes.Clone(client), segment: max(segment, 1)}
		h := newHandshake(t, config, down)
		h.upstream, h.offered = up, []byte("a certificate")
		protocol, err := h.authenticate(t.Context(), &startup{packet: startupPacket(protocol30), version: protocol30 + 2})
		wantWellFormed(t, err)
		if err == nil && (protocol < protocol30 || protocol > protocol30+2) {
			t.Errorf("protocol %#x", protocol)
		}
		wantRelayed(t, down.out.Bytes(), server)
	})
}

// wantRelayed wants got to be the first messages of sent, but for a mechanism
// that was left out.
func wantRelayed(t *testing.T, got, sent []byte) {
	t.Helper()
	from, to := bytes.NewReader(sent), bytes.NewReader(got)
	for to.Len() > 0 {
		want, err := readFrame(from, nil)
		if err != nil && want[0] == 'E' {
			return // of protocol 2: without a length
		}
		if want[0] == 'R' && binary.BigEndian.Uint32(want[headerSize:]) == authSASL {
			want, _ = withoutPlus(want)
			if bytes.Contains(want, []byte("\x00"+scramPlus+"\x00")) {
				t.Errorf("%q still has PLUS", want)
			}
		}
		if relayed, err := readFrame(to, nil); err != nil || !bytes.Equal(relayed, want) {
			t.Fatalf("%q, %v is relayed of %q", relayed, err, want)
		}
	}
}

// A length that is announced takes no memory before its bytes have come
// (pgx #2139).
func TestLengthsAreNotBelieved(t *testing.T) {
	t.Parallel()
	b, err := readFrame(bytes.NewReader([]byte{'p', 0, 1, 0, 0, 'x'}), nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) || cap(b) > 4*growth {
		t.Errorf("%d bytes are taken, %v", cap(b), err)
	}
}
