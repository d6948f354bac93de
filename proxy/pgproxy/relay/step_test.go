package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

const fencedToken = "ft1:x:1:h:i:r"

// fencings are what a session may be: its token, and what the server says of it.
var fencings = map[string]string{"fenced": fencedToken, "not fenced": ""}

// gated is a connection from which nothing is read while it is locked.
type gated struct {
	net.Conn
	sync.Mutex
}

func (g *gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.Lock()
	defer g.Unlock()
	return n, err
}

// tcpPair is a connection of the proxy's and its other end.
func tcpPair(t *testing.T) (proxys, ours net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if ours, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if proxys, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return proxys, ours
}

func socketPair(t *testing.T) (proxys, ours net.Conn) {
	t.Helper()
	return connPair(t, true)
}

// startAnswered runs a session with a stand-in that says all that it answers to
// what it has read at once, by send.
func startAnswered(t *testing.T, s *relaying, l *Link, server *standIn, pair func(t *testing.T) (proxys, ours net.Conn), send func(conn net.Conn, b []byte)) *relayed {
	t.Helper()
	r := &relayed{standIn: server, ended: make(chan error, 1), grew: make(chan struct{}, 1), played: make(chan struct{}), heard: make(chan struct{})}
	var client, upstream net.Conn
	l.Client, client = pair(t)
	l.Server, upstream = pair(t)
	r.client, r.server = &gated{Conn: client}, &gated{Conn: upstream}
	go func() { r.ended <- s.Serve(context.Background(), l, nil) }()
	go r.listen()
	greeting := server.greeting()
	go func() {
		defer close(r.played)
		defer r.server.Close()
		_, err := r.server.Write(greeting)
		var rest []byte
		for b := make([]byte, 64<<10); err == nil; {
			var n int
			n, err = r.server.Read(b)
			var answers []byte
			rest, _ = frames(append(rest, b[:n]...), func(kind byte, body []byte) bool {
				answers = append(answers, server.take(kind, body)...)
				return true
			})
			if len(answers) > 0 {
				send(r.server, answers)
			}
		}
	}()
	r.wants(t, server.direct(nil))
	return r
}

func atOnce(conn net.Conn, b []byte) { _, _ = conn.Write(b) }

func encoded(t *testing.T, messages ...pgproto3.FrontendMessage) (b []byte) {
	t.Helper()
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// sqlTransactions are some in each protocol, as one client's messages each.
func sqlTransactions(t *testing.T) (requests [][]byte) {
	t.Helper()
	add := func(messages ...pgproto3.FrontendMessage) { requests = append(requests, encoded(t, messages...)) }
	const insert = "INSERT INTO t VALUES (1)"
	add(&pgproto3.Query{String: insert})
	add(&pgproto3.Parse{Name: "p", Query: insert}, &pgproto3.Sync{})
	for range 3 {
		add(&pgproto3.Bind{PreparedStatement: "p"}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{})
	}
	for _, text := range []string{"BEGIN", insert, "COMMIT"} {
		add(&pgproto3.Query{String: text})
	}
	return requests
}

// TestOneWriteEach: of what the client says at once, and of what the server
// answers at once, each is passed on by one write, fenced or not: a check costs no
// system call.
func TestOneWriteEach(t *testing.T) {
	t.Parallel()
	for name, token := range fencings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRelaying(Config{Untokened: gate.Allow})
			r := startAnswered(t, l, l.link(), newStandIn(token, false), tcpPair, atOnce)
			segments := func(conn net.Conn) (n uint32) {
				raw, err := conn.(*gated).Conn.(*net.TCPConn).SyscallConn()
				if err != nil {
					t.Fatal(err)
				}
				_ = raw.Control(func(fd uintptr) {
					info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
					if err != nil {
						t.Error(err)
						return
					}
					n = info.Data_segs_in
				})
				return n
			}
			var stream []byte
			for _, request := range sqlTransactions(t) {
				toClient, toServer := segments(r.client), segments(r.server)
				atOnce(r.client, request)
				stream = append(stream, request...)
				r.wants(t, direct(stream, token))
				if n := segments(r.client) - toClient; n != 1 {
					t.Errorf("%q: %d writes to the client", request, n)
				}
				if n := segments(r.server) - toServer; n != 1 {
					t.Errorf("%q: %d writes to the server", request, n)
				}
			}
			r.finish(t, testLimit)
			if r.standIn.unfenced > 0 && token != "" {
				t.Error("something was committed unchecked")
			}
		})
	}
}

// TestReplySegments: a reply whose first bytes the loop has read, and its rest
// when the loop has handed over, is relayed, wherever it is cut.
func TestReplySegments(t *testing.T) {
	t.Parallel()
	for name, token := range fencings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cut := 1 << 20
			l := newRelaying(Config{Untokened: gate.Allow})
			r := startAnswered(t, l, l.link(), newStandIn(token, false), socketPair, func(conn net.Conn, b []byte) {
				first := b[:min(cut, len(b))]
				atOnce(conn, first)
				eventually(t, "the proxy has read it", func() bool { return ioctl(t, conn.(*gated).Conn, unix.TIOCOUTQ) == 0 })
				atOnce(conn, b[len(first):])
			})
			var stream []byte
			for _, text := range []string{"SELECT 1", "NOTIFY c", "FAIL", "DO 'x'"} {
				request := encoded(t, &pgproto3.Query{String: text})
				for cut = 1; cut < 80; cut++ {
					atOnce(r.client, request)
					stream = append(stream, request...)
					r.wants(t, direct(stream, token))
				}
			}
			r.finish(t, testLimit)
		})
	}
}

// narrowPair is tcpPair with hardly any buffers, so that a write may be cut short.
func narrowPair(t *testing.T) (proxys, ours net.Conn) {
	t.Helper()
	proxys, ours = tcpPair(t)
	for _, conn := range []net.Conn{proxys, ours} {
		tcp := conn.(*net.TCPConn)
		if err := errors.Join(tcp.SetReadBuffer(4<<10), tcp.SetWriteBuffer(4<<10)); err != nil {
			t.Fatal(err)
		}
	}
	return proxys, ours
}

// counted is a counter that can be read.
type counted struct {
	prometheus.Counter

	n atomic.Int64
}

func (c *counted) Add(n float64) { c.n.Add(int64(n)) }

// TestFullBuffers: what the loop could only write a part of is neither lost nor
// judged or written again: while the server does not read, and then while the
// client does not.
func TestFullBuffers(t *testing.T) {
	t.Parallel()
	for name, token := range fencings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRelaying(Config{Untokened: gate.Allow})
			var up, down counted
			l.config.Metrics.BytesUp, l.config.Metrics.BytesDown = &up, &down
			r := startAnswered(t, l, l.link(), newStandIn(token, false), narrowPair, atOnce)
			var stream []byte
			// fill says something, each time when the loop has passed on what came
			// before, until it does no more.
			fill := func(deaf *gated, text string, passed *counted) {
				t.Helper()
				request := encoded(t, &pgproto3.Query{String: text})
				deaf.Lock()
				for stuck := false; !stuck; {
					before := passed.n.Load()
					atOnce(r.client, request)
					stream = append(stream, request...)
					stuck = !within(20*time.Millisecond, func() bool { return passed.n.Load() != before })
				}
				deaf.Unlock()
				r.wants(t, direct(stream, token))
			}
			fill(r.server.(*gated), "SELECT "+strings.Repeat("1", 2222), &up)
			fill(r.client.(*gated), strings.Repeat("SELECT 1;", 77), &down)
			r.finish(t, testLimit)
		})
	}
}

// TestInsertBehindPart: what is inserted after the loop could only write a part
// comes behind the rest.
func TestInsertBehindPart(t *testing.T) {
	t.Parallel()
	var loop poll.Loop
	proxys, ours := narrowPair(t)
	conn, _, err := loop.Adopt(proxys)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer ours.Close()
	sink := stream.NewSink(conn)
	message := bytes.Repeat([]byte("m"), 96<<10)
	n, done := sink.Try(message)
	if n == 0 || done {
		t.Fatal(n, done)
	}
	written := make(chan error, 1)
	go func() {
		written <- errors.Join(sink.Insert([]byte("i")), sink.Write(message[n:], false))
	}()
	got := make([]byte, len(message)+1)
	if _, err := io.ReadFull(ours, got); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil || !bytes.Equal(got, append(message, 'i')) {
		t.Errorf("%v; it comes at %d", err, bytes.IndexByte(got, 'i'))
	}
}

// stuckLog is a log whose warnings are stuck until it is closed.
type stuckLog struct {
	slog.Handler

	stuck chan struct{} // has an element when one is
	freed chan struct{}
}

func (s stuckLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		select {
		case s.stuck <- struct{}{}:
			<-s.freed
		case <-s.freed:
		}
	}
	return nil
}

func (s stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (s stuckLog) WithAttrs([]slog.Attr) slog.Handler { return s }

// TestLoopWaitsForNobody: while a session reports a refusal, and the log takes its
// time, others go on, whatever its client sends meanwhile.
func TestLoopWaitsForNobody(t *testing.T) {
	t.Parallel()
	s := newRelaying(Config{Untokened: gate.Allow})
	log := stuckLog{Handler: slog.DiscardHandler, stuck: make(chan struct{}, 1), freed: make(chan struct{})}
	free := sync.OnceFunc(func() { close(log.freed) })
	defer free()
	slow, others := s.link(), make([]*relayed, len(s.loops))
	slow.Log = slog.New(log)
	r := startAnswered(t, s, slow, newStandIn(fencedToken, true), socketPair, atOnce)
	for i := range others {
		others[i] = startAnswered(t, s, s.link(), newStandIn(fencedToken, false), socketPair, atOnce)
	}
	request := encoded(t, &pgproto3.Query{String: "INSERT INTO t VALUES (1)"})
	atOnce(r.client, request)
	select {
	case <-log.stuck:
	case <-r.heard:
		t.Fatal("the session has ended")
	case <-time.After(testLimit):
		t.Fatal("no refusal is logged")
	}
	atOnce(r.client, request)
	eventually(t, "the proxy has read it", func() bool { return ioctl(t, r.client.(*gated).Conn, unix.TIOCOUTQ) == 0 })
	for _, other := range others {
		atOnce(other.client, request)
		other.wants(t, direct(request, fencedToken))
	}
	free()
	r.finish(t, testLimit)
	for _, other := range others {
		other.finish(t, testLimit)
	}
}
