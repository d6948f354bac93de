// Package link is a TCP link to a server that can be slow, stuck, cut, or lose
// a reply.
package link

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// Protocol is what a Link understands of the bytes that pass it.
type Protocol int

const (
	// Bytes: a request is what a client sends between two replies.
	Bytes Protocol = iota
	// HTTP2 without TLS: a request is a stream, so a call of gRPC.
	HTTP2
	// PostgresWire without TLS: a request is a client message that ends a
	// round trip, Query, Sync or FunctionCall. Startup is not one.
	PostgresWire
	// RESP is the protocol of Redis without TLS: a request is a command. Its
	// path is the command's name in capitals and, for EVAL and EVALSHA, the
	// first argument after the keys: "EVALSHA acquire".
	RESP
	// ZooKeeperWire without TLS: a request is a frame of the client, but for
	// pings. Its path is what it asks for, like "create" or "getChildren2", or
	// "connect", which opens or renews the session.
	ZooKeeperWire
)

// Config says what kind of link it is.
type Config struct {
	// Protocol is what passes. Defaults to Bytes.
	Protocol Protocol
}

// Link is such a link. It is safe for use by many goroutines.
type Link struct {
	tb       testing.TB
	addr     string
	protocol Protocol
	running  sync.WaitGroup
	// unreadable reports what the link cannot read, once: clients try again.
	unreadable sync.Once

	mu       sync.Mutex
	target   string       // where new connections go
	listener net.Listener // nil while connections are refused
	seat     seat
	conns    map[*conn]bool
	thawed   chan struct{} // closed unless the link is frozen
	delay    time.Duration
	requests int
	paths    []string
	drops    []*drop
	tears    []int // how many messages pass until one is torn
}

// drop is one reply to be lost: that to the left-th request that matches.
type drop struct {
	match func(path string) bool
	left  int
}

// New opens a link from a port of its own to target, host:port. It ends with the test.
func New(tb testing.TB, target string, c Config) *Link {
	tb.Helper()
	l := &Link{tb: tb, target: host(target), protocol: c.Protocol, conns: map[*conn]bool{}, thawed: make(chan struct{})}
	close(l.thawed)
	err := localserver.OnFreePorts(1, func(ports []int) (err error) {
		l.addr = localserver.Loopback(ports[0])
		l.seat, err = takeSeat(ports[0])
		return err
	})
	if err != nil {
		tb.Fatalf("link: open link: %v", err)
	}
	listener, err := l.seat.listen()
	if err != nil {
		l.seat.leave()
		tb.Fatalf("link: open link: %v", err)
	}
	l.accept(listener)
	tb.Cleanup(func() {
		l.Refuse(true)
		l.running.Wait()
		l.seat.leave()
	})
	return l
}

func host(target string) string { return strings.TrimPrefix(target, "http://") }

// Turn makes the link one to another target, host:port, and cuts what is open.
func (l *Link) Turn(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = host(target)
	l.cut()
}

// Addr is the link's host:port, to be used in place of the server's.
func (l *Link) Addr() string { return l.addr }

// Requests counts the requests so far, of all connections.
func (l *Link) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

// Paths are the paths of the requests so far: HTTP2's :path, RESP's
// commands, ZooKeeper's operations.
func (l *Link) Paths() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.paths)
}

// DropReply loses the reply to the n-th request from now, 1 being the next:
// the server gets the request and answers it, the client gets nothing of the
// answer, and then the connection is cut. What the server sent before that
// answer still arrives.
func (l *Link) DropReply(n int) {
	l.DropReplyTo(func(string) bool { return true }, n)
}

// DropReplyTo is DropReply that counts only requests whose path matches. Only
// HTTP2, RESP and ZooKeeper have paths; elsewhere match is called with "".
func (l *Link) DropReplyTo(match func(path string) bool, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drops = append(l.drops, &drop{match, n})
}

// Tear resets the connection that carries the n-th message from now on, in either
// direction, in the middle of it: half of its bytes arrive, and then both sides
// find their connection reset.
func (l *Link) Tear(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tears = append(l.tears, n)
}

// torn counts a message and says whether it is to be torn.
func (l *Link) torn() (torn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.tears {
		l.tears[i]--
		torn = torn || l.tears[i] <= 0
	}
	l.tears = slices.DeleteFunc(l.tears, func(left int) bool { return left <= 0 })
	return torn
}

// Freeze stops the bytes in both directions, those of new connections too;
// nothing is closed and nothing is lost.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isThawed() {
		l.thawed = make(chan struct{})
	}
}

// Thaw lets the bytes move again.
func (l *Link) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isThawed() {
		close(l.thawed)
	}
}

func (l *Link) isThawed() bool {
	select {
	case <-l.thawed:
		return true
	default:
		return false
	}
}

// Delay makes everything take d longer, in each direction, from now on. It
// does not narrow the link: what is sent together arrives together.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Cut closes the open connections on both sides. New ones work.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

func (l *Link) cut() {
	for c := range l.conns {
		c.close()
	}
}

// Refuse makes the link refuse new connections, and cuts the open ones; or
// accept again.
func (l *Link) Refuse(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case refuse && l.listener != nil:
		if err := l.seat.refuse(); err != nil {
			l.tb.Errorf("link: close link: %v", err)
		}
		l.listener.Close()
		l.listener = nil
		l.cut()
	case !refuse && l.listener == nil:
		listener, err := l.seat.listen()
		if err != nil {
			l.tb.Errorf("link: open link again: %v", err)
			return
		}
		l.accept(listener)
	}
}

// accept starts to accept connections. The caller holds mu, or l is new.
func (l *Link) accept(listener net.Listener) {
	l.listener = listener
	l.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed by Refuse
			}
			l.running.Go(func() { l.serve(listener, client) })
		}
	})
}

// serve owns client, and returns when the connection has ended.
func (l *Link) serve(from net.Listener, client net.Conn) {
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}
	c := newConn(l, client, server)
	l.mu.Lock()
	if l.listener == from && l.target == target {
		l.conns[c] = true
	} else {
		c.close() // refused, or turned, while it was being opened
	}
	l.mu.Unlock()
	c.run()
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
}

// request counts a request and says whether its reply is to be lost.
func (l *Link) request(path string) (lose bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	if l.protocol == HTTP2 || l.protocol == RESP || l.protocol == ZooKeeperWire {
		l.paths = append(l.paths, path)
	}
	l.drops = slices.DeleteFunc(l.drops, func(d *drop) bool {
		if !d.match(path) {
			return false
		}
		d.left--
		if d.left == 0 {
			lose = true
		}
		return d.left <= 0
	})
	return lose
}

// pace returns what bytes have to wait for.
func (l *Link) pace() (thawed <-chan struct{}, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.thawed, l.delay
}
