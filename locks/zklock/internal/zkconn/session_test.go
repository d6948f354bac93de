package zkconn

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

const patience = 60 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func configOf(addr string) Config {
	return Config{Servers: []string{addr}, TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)}
}

// serve opens a session that has a user, until the test ends.
func serve(t *testing.T, c Config) *Session {
	t.Helper()
	s, err := Open(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	s.Join()
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve()
	}()
	t.Cleanup(func() {
		s.End(locks.ErrClosed)
		<-served
	})
	return s
}

func create(path string, flags int32) func(*zk.Conn) (string, error) {
	return func(c *zk.Conn) (string, error) { return c.Create(path, nil, flags, zk.WorldACL(zk.PermAll)) }
}

// TestSession: it lasts while it is served, tells what its watches see, and is gone
// with its nodes when it has ended.
func TestSession(t *testing.T) {
	t.Parallel()
	server, ctx := testenv.ZooKeeper(t), testContext(t)
	c := configOf(server.Addr())
	c.TTL = time.Second // a quarter of it is soon over
	s, other := serve(t, c), serve(t, configOf(server.Addr()))
	path := "/zkconn-" + locks.NewID()
	if _, err := Ask(ctx, s, create(path, zk.FlagEphemeral)); err != nil {
		t.Fatal(err)
	}
	events := make(chan zk.EventType, 2)
	w, coming := other.Watch(path, func(e zk.EventType) { events <- e }), other.Watch(path+"-next", func(e zk.EventType) { events <- e })
	if _, err := w.Arm(ctx); err != nil {
		t.Fatal(err)
	}
	if err := coming.ArmMissing(ctx); err != nil || !other.MayWatch(path+"-next") {
		t.Fatalf("watch what is not there: %v", err)
	}
	if _, err := Ask(ctx, s, create(path+"-next", zk.FlagEphemeral)); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e != zk.EventNodeCreated || other.MayWatch(path+"-next") {
		t.Errorf("event %v of a node that was made", e)
	}
	for start := s.Deadline(); !s.Deadline().After(start.Add(c.TTL)); { // several renewals
		select {
		case <-s.Context().Done():
			t.Fatal(s.Over())
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.End(locks.ErrClosed)
	if e := <-events; e != zk.EventNodeDeleted {
		t.Errorf("event %v at the end of the session", e)
	}
	if _, err := Ask(ctx, s, create(path, 0)); !errors.Is(err, locks.ErrClosed) {
		t.Errorf("a request after the end: %v", err)
	}
	if _, err := w.Arm(ctx); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("the node is still there: %v", err)
	}
}

// TestLeft: whether ZooKeeper knows of the end.
func TestLeft(t *testing.T) {
	t.Parallel()
	link := testenv.NewLink(t, testenv.ZooKeeper(t).Addr(), testenv.LinkConfig{Protocol: testenv.ZooKeeperWire})
	for _, hangs := range []bool{false, true} {
		s, err := Open(testContext(t), configOf(link.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		if hangs {
			link.Freeze()
		}
		s.End(locks.ErrClosed)
		s.Serve()
		if err := s.Left(); (err != nil) != hangs {
			t.Errorf("hangs %v: %v", hangs, err)
		}
	}
}

// TestNoServer: whoever waits for a server that does not answer is told in time.
func TestNoServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c := configOf(silent.Addr().String())
	if s, err := Open(ctx, c); s != nil || !errors.Is(err, errNoServer) {
		t.Errorf("Open: %v", err)
	}
	if err := Visit(ctx, c, func(c *zk.Conn) error { _, err := c.Sync("/"); return err }); !errors.Is(err, errNoServer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Visit: %v", err)
	}
}

// TestAbandonedCall: a request that nobody waits for any more goes on, and its
// reply can be had.
func TestAbandonedCall(t *testing.T) {
	t.Parallel()
	s := serve(t, configOf(testenv.ZooKeeper(t).Addr()))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	sent := make(chan struct{})
	call := Start(s, func(c *zk.Conn) (string, error) {
		<-sent
		return c.Sync("/")
	})
	if _, err := Await(ctx, s, call); !errors.Is(err, why) || call.Done() {
		t.Errorf("Await: %v", err)
	}
	close(sent)
	if _, err := Await(testContext(t), s, call); err != nil || !call.Done() {
		t.Errorf("Await of a reply: %v", err)
	}
	if path, err := call.Result(); err != nil || path != "/" {
		t.Errorf("%q, %v", path, err)
	}
}
