package zklock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

type acquireFunc func(ctx context.Context, resource string) (locks.Lease, error)

func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func mustAcquire(tb testing.TB, acquire acquireFunc, resource string) locks.Lease {
	tb.Helper()
	lease, err := acquire(testContext(tb), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return lease
}

func mustRelease(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := lease.Release(testContext(tb)); err != nil {
		tb.Fatal(err)
	}
}

// granted is what an acquisition in the background came to.
type granted struct {
	lease locks.Lease
	err   error
}

// background acquires in the background; the test waits for it at its end.
func background(ctx context.Context, tb testing.TB, acquire acquireFunc, resource string) <-chan granted {
	tb.Helper()
	got, done := make(chan granted, 1), make(chan struct{})
	tb.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		lease, err := acquire(ctx, resource)
		got <- granted{lease, err}
	}()
	return got
}

func wantGrant(tb testing.TB, got <-chan granted) locks.Lease {
	tb.Helper()
	g := <-got
	if g.err != nil {
		tb.Fatal(g.err)
	}
	return g.lease
}

func wantLost(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	select {
	case <-lease.Lost():
	case <-time.After(patience):
		tb.Fatal("Lost is not closed")
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		tb.Fatalf("Err of a lost lease: %v", err)
	}
}

func wantHeld(tb testing.TB, lease locks.Lease) {
	tb.Helper()
	if err := lease.Err(); err != nil {
		tb.Fatalf("Err of a held lease: %v", err)
	}
}

// wantRising checks that the numbers rise, and that the issuer is one.
func wantRising(tb testing.TB, leases ...locks.Lease) {
	tb.Helper()
	for i := 1; i < len(leases); i++ {
		if a, b := leases[i-1].Token(), leases[i].Token(); b.Number <= a.Number || a.Issuer != b.Issuer {
			tb.Errorf("%v was granted after %v", b, a)
		}
	}
}

// await polls until cond holds.
func await(tb testing.TB, cond func() bool) {
	tb.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatal("what must happen did not")
		}
	}
}

func (s *service) awaitEntries(tb testing.TB, resource string, n int) {
	tb.Helper()
	await(tb, func() bool { return s.Entries(tb, resource) == n })
}

// locker returns a locker with locks at the root of s.
func (s *service) locker(tb testing.TB, ttl time.Duration, addrs ...string) *zklock.Locker {
	tb.Helper()
	config := s.config
	config.TTL = ttl
	return newLocker(tb, zklock.Dial{Servers: addrs}, config)
}

// far is a locker behind a link of its own, which has a session.
func (s *service) far(tb testing.TB) (*zklock.Locker, *testenv.Link) {
	tb.Helper()
	link := newLink(tb, s.Addr())
	locker := s.locker(tb, longTTL, link.Addr())
	mustRelease(tb, mustAcquire(tb, locker.Acquire, "first"))
	return locker, link
}

func (s *service) near(tb testing.TB) *zklock.Locker {
	tb.Helper()
	return s.locker(tb, longTTL, s.Addr())
}

func (s *service) create(tb testing.TB, path string, flags int32) {
	tb.Helper()
	_, err := ask(tb, func() (string, error) { return s.conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll)) })
	if err != nil {
		tb.Fatalf("create %s: %v", path, err)
	}
}

func (s *service) children(tb testing.TB, path string) []string {
	tb.Helper()
	names, err := ask(tb, func() ([]string, error) {
		names, _, err := s.conn.Children(path)
		return names, err
	})
	if err != nil {
		tb.Fatalf("children of %s: %v", path, err)
	}
	return names
}

// expire ends the session behind link that has the youngest node of resource, as
// the server does when it has not heard of it: somebody moves it to a connection
// of his own, and closes it.
func (s *service) expire(tb testing.TB, link *testenv.Link, resource string) {
	tb.Helper()
	link.Refuse(true)
	defer link.Refuse(false)
	queue := s.queue(tb, resource)
	path := s.dir(resource) + "/" + queue[len(queue)-1]
	stat, err := ask(tb, func() (*zk.Stat, error) {
		_, stat, err := s.conn.Get(path)
		return stat, err
	})
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	hello := binary.BigEndian.AppendUint32(nil, 0) // protocol
	hello = binary.BigEndian.AppendUint64(hello, 0)
	hello = binary.BigEndian.AppendUint32(hello, 10_000) // timeout
	hello = binary.BigEndian.AppendUint64(hello, uint64(stat.EphemeralOwner))
	hello = binary.BigEndian.AppendUint32(hello, 16)
	hello = append(hello, password(stat.EphemeralOwner)...)
	var bye []byte
	bye = binary.BigEndian.AppendUint32(bye, 1)
	bye = binary.BigEndian.AppendUint32(bye, ^uint32(10)) // close: -11
	for _, frame := range [][]byte{hello, bye} {
		if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, uint32(len(frame)))); err != nil {
			tb.Fatal(err)
		}
		if _, err := conn.Write(frame); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := io.ReadAll(conn); err != nil {
		tb.Fatal(err)
	}
}

// password is that of a session (ZooKeeperServer.generatePasswd): what Java's
// random generator gives for its id.
func password(session int64) []byte {
	const mask = 1<<48 - 1
	seed := (uint64(session^0xB3415C00) ^ 0x5DEECE66D) & mask
	var bytes []byte
	for len(bytes) < 16 {
		seed = (seed*0x5DEECE66D + 0xB) & mask
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(seed>>16))
	}
	return bytes
}

// counter counts the requests for locks that pass a link.
type counter struct {
	*testenv.Link
	seen int
}

// since returns the requests for locks since the last call.
func (c *counter) since() []string {
	paths := c.Paths()
	fresh := slices.DeleteFunc(slices.Clone(paths[c.seen:]), func(path string) bool { return !makesLock(path) })
	c.seen = len(paths)
	return fresh
}

func (c *counter) want(tb testing.TB, what string, paths ...string) {
	tb.Helper()
	if got := c.since(); !slices.Equal(got, paths) {
		tb.Errorf("%s: requests %q, want %q", what, got, paths)
	}
}
