package zklock_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/lockstest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

const (
	// shortTTL is for tests that lose a lease, longTTL for the others: what a
	// waiter looks at without being told comes too late for them.
	shortTTL = 3 * time.Second
	longTTL  = patience
	patience = 60 * time.Second
)

func TestConformance(t *testing.T) {
	t.Parallel()
	lockstest.Exercise(t, backend(zklock.Config{}))
}

func TestConformanceOfSequence(t *testing.T) {
	t.Parallel()
	lockstest.Exercise(t, backend(zklock.Config{Number: zklock.Sequence}))
}

func backend(config zklock.Config) lockstest.Backend {
	service := func(tb testing.TB, server *testenv.ZooKeeperServer) lockstest.Service {
		s := newService(tb, server)
		s.config = config
		s.config.Root = s.root
		return s
	}
	return lockstest.Backend{
		Shared: func(tb testing.TB) lockstest.Service { return service(tb, testenv.ZooKeeper(tb)) },
		Private: func(tb testing.TB) lockstest.Service {
			return service(tb, testenv.StartZooKeeper(tb, testenv.ZooKeeperConfig{}))
		},
		Link:   func(tb testing.TB, target string) lockstest.Link { return newLink(tb, target) },
		Counts: makesLock,
		TTL:    shortTTL,
	}
}

// makesLock tells the requests that make a lock from those that keep the
// session.
func makesLock(path string) bool {
	return !slices.Contains([]string{"connect", "sync", "close", "setWatches", "setAuth"}, path)
}

func newLink(tb testing.TB, target string) *testenv.Link {
	tb.Helper()
	return testenv.NewLink(tb, target, testenv.LinkConfig{Protocol: testenv.ZooKeeperWire})
}

// service is a ZooKeeper, with a root of its own.
type service struct {
	server *testenv.ZooKeeperServer
	root   string
	config zklock.Config
	conn   *zk.Conn
}

func newService(tb testing.TB, server *testenv.ZooKeeperServer) *service {
	tb.Helper()
	root := "/test-" + locks.NewID()
	return &service{server: server, root: root, config: zklock.Config{Root: root}, conn: connect(tb, server.Addr())}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// connect returns a client as it is, without a Locker.
func connect(tb testing.TB, addr string) *zk.Conn {
	tb.Helper()
	conn, events, err := zk.Connect([]string{addr}, longTTL, zk.WithLogger(silent{}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		conn.Close()
		for range events { // until the client has ended
		}
	})
	return conn
}

func (s *service) Addr() string { return s.server.Addr() }

func (s *service) Open(tb testing.TB, addr string, ttl time.Duration) locks.Locker {
	tb.Helper()
	config := s.config
	config.TTL = ttl
	return newLocker(tb, zklock.Dial{Servers: []string{addr}}, config)
}

func newLocker(tb testing.TB, dial zklock.Dial, config zklock.Config) *zklock.Locker {
	tb.Helper()
	locker, err := zklock.New(dial, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := locker.Close(); err != nil {
			tb.Logf("close: %v", err)
		}
	})
	return locker
}

// ask asks the server until it answers: it may have been restarted.
func ask[T any](tb testing.TB, request func() (T, error)) (T, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		value, err := request()
		if ctx.Err() != nil || !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrSessionExpired) {
			return value, err
		}
	}
}

func (s *service) dir(resource string) string { return s.root + "/" + locks.Segment(resource) }

// queue is the names of the nodes of resource, oldest first.
func (s *service) queue(tb testing.TB, resource string) []string {
	tb.Helper()
	names, err := ask(tb, func() ([]string, error) {
		names, _, err := s.conn.Children(s.dir(resource))
		return names, err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		tb.Fatal(err)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(sequence(a), sequence(b)) })
	return names
}

// sequence is the number at the end of a name. It has not wrapped here.
func sequence(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n
}

func (s *service) Entries(tb testing.TB, resource string) int {
	tb.Helper()
	return len(s.queue(tb, resource))
}

func (s *service) Break(tb testing.TB, resource string, token guard.Token) {
	tb.Helper()
	queue := s.queue(tb, resource)
	i := len(queue) - 1
	if token.Holder != "" {
		i = slices.IndexFunc(queue, func(name string) bool { return strings.Contains(name, token.Holder) })
	}
	if i < 0 {
		tb.Fatalf("nothing of %v in %v", token, queue)
	}
	s.delete(tb, s.dir(resource)+"/"+queue[i])
}

func (s *service) delete(tb testing.TB, path string) {
	tb.Helper()
	_, err := ask(tb, func() (struct{}, error) { return struct{}{}, s.conn.Delete(path, -1) })
	if err != nil {
		tb.Fatalf("delete %q: %v", path, err)
	}
}

func (s *service) Restart(tb testing.TB) { tb.Helper(); s.server.Restart(tb) }
