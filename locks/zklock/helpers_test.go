package zklock_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func (s *service) awaitEntries(tb testing.TB, resource string, n int) {
	tb.Helper()
	locktest.Await(tb, func() bool { return s.Entries(tb, resource) == n })
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
	locktest.MustRelease(tb, locktest.MustAcquire(tb, locker.Acquire, "first"))
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

func newCounter(tb testing.TB, target string) *locktest.Counter {
	tb.Helper()
	return &locktest.Counter{Link: newLink(tb, target), Counts: makesLock}
}
