package zklock_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// tree is every node from path on.
func (s *service) tree(tb testing.TB, path string) map[string]zk.Stat {
	tb.Helper()
	type node struct {
		names []string
		stat  *zk.Stat
	}
	n, err := ask(tb, func() (node, error) {
		names, stat, err := s.conn.Children(path)
		return node{names, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]zk.Stat{path: *n.stat}
	for _, name := range n.names {
		maps.Copy(all, s.tree(tb, path+"/"+name))
	}
	return all
}

func mustStatus(tb testing.TB, locker locks.StatusLocker, resource string) locks.Status {
	tb.Helper()
	status, err := locker.Status(locktest.Context(tb), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return status
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for name, number := range map[string]zklock.Number{"czxid": zklock.Czxid, "sequence": zklock.Sequence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, testenv.ZooKeeper(t))
			s.config.Number = number
			testStatus(t, s, s.near(t), s.near(t))
		})
	}
}

func testStatus(t *testing.T, s *service, a, b *zklock.Locker) {
	t.Helper()
	if got := mustStatus(t, a, "r"); !cmp.Equal(got, locks.Status{Resource: "r"}) {
		t.Errorf("status of what nobody has ever locked: %+v", got)
	}
	if all := s.tree(t, s.root); len(all) != 0 {
		t.Fatalf("to read the status made %v", all)
	}
	first := locktest.MustAcquire(t, a.AcquireShared, "r")
	second := locktest.MustAcquire(t, b.AcquireShared, "r")
	writer := locktest.Background(locktest.Context(t), t, a.Acquire, "r")
	s.awaitEntries(t, "r", 3)
	reader := locktest.Background(locktest.Context(t), t, b.AcquireShared, "r")
	s.awaitEntries(t, "r", 4)
	s.create(t, s.dir("r")+"/somebody-else's", zk.FlagEphemeralSequential)
	below := locktest.MustAcquire(t, a.Acquire, "r/eu")

	before := s.tree(t, s.root)
	got := mustStatus(t, a, "r")
	if diff := cmp.Diff(before, s.tree(t, s.root)); diff != "" {
		t.Errorf("to read the status changed (-before +after):\n%s", diff)
	}
	if len(got.Holders) != 2 || len(got.Waiters) != 2 || got.Issuer != first.Token().Issuer {
		t.Fatalf("two readers hold, two wait: %+v", got)
	}
	for i, lease := range []locks.Lease{first, second} {
		if token, ok := got.Holders[i].Token("r"); !ok || token != lease.Token() {
			t.Errorf("token of holder %d: %v, %v, want %v", i, token, ok, lease.Token())
		}
	}
	for i, mode := range []guard.Mode{guard.Exclusive, guard.Shared} {
		w := got.Waiters[i]
		if w.Mode != mode || w.Number <= second.Token().Number || w.Holder == "" || w.Issuer != "" {
			t.Errorf("waiter %d: %+v, want %v", i, w, mode)
		}
	}
	for _, p := range append(got.Holders, got.Waiters...) {
		if p.Timed || p.Session == "" || p.Expired() {
			t.Errorf("place %+v does not end by its session", p)
		}
	}
	if got.Holders[0].Session != got.Waiters[0].Session || got.Holders[0].Session == got.Holders[1].Session {
		t.Errorf("sessions of two lockers, of a place each: %+v", got)
	}
	for _, lease := range []locks.Lease{first, second, below} {
		locktest.MustRelease(t, lease)
	}
	locktest.MustRelease(t, locktest.WantGrant(t, writer))
	locktest.MustRelease(t, locktest.WantGrant(t, reader))
	if _, err := a.Status(locktest.Context(t), ""); !errors.Is(err, guard.ErrMalformed) {
		t.Errorf("status of no name: %v", err)
	}
}

func TestStatusOfSingle(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	s.config.Single = true
	locker := s.near(t)
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	got := mustStatus(t, locker, "r")
	if len(got.Holders) != 1 || len(got.Waiters) != 0 {
		t.Fatalf("status %+v", got)
	}
	if token, ok := got.Holders[0].Token("r"); !ok || token != lease.Token() {
		t.Errorf("token %v, %v, want %v", token, ok, lease.Token())
	}
	locktest.MustRelease(t, lease)
}

// TestStatusACL: who may read sees it; a lack of permissions is an error, and
// whoever may lock may rotate.
func TestStatusACL(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	me := zklock.Dial{Servers: []string{s.Addr()}, Auth: []zklock.Auth{{Scheme: "digest", Credentials: "me:secret"}}}
	config := zklock.Config{TTL: longTTL, Root: s.root + "/deeper"}
	locker := newLocker(t, me, config)
	old := mustRotate(t, locker, "") // makes the root, for me alone
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	if token, ok := mustStatus(t, locker, "r").Holders[0].Token("r"); !ok || token != lease.Token() || token.Issuer != old {
		t.Errorf("token %v, %v, want %v", token, ok, lease.Token())
	}
	stranger := newLocker(t, zklock.Dial{Servers: []string{s.Addr()}}, config)
	if _, err := stranger.Status(locktest.Context(t), "r"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("status for a stranger: %v", err)
	}
	if _, err := stranger.RotateIssuer(locktest.Context(t), old); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger rotates: %v", err)
	}
	mustRotate(t, locker, old)
	locktest.MustRelease(t, lease)
}

// TestStatusReconnects: lost replies are asked for again, as whoever it was.
func TestStatusReconnects(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	link := newLink(t, s.Addr())
	auth := []zklock.Auth{{Scheme: "digest", Credentials: "me:secret"}}
	config := zklock.Config{TTL: longTTL, Root: s.root}
	near := newLocker(t, zklock.Dial{Servers: []string{s.Addr()}, Auth: auth}, config)
	far := newLocker(t, zklock.Dial{Servers: []string{link.Addr()}, Auth: auth}, config)
	lease := locktest.MustAcquire(t, near.Acquire, "r")
	for n := 1; n <= 8; n++ {
		link.DropReplyTo(func(string) bool { return true }, n)
		if got := mustStatus(t, far, "r"); len(got.Holders) != 1 || got.Holders[0].Issuer != lease.Token().Issuer {
			t.Errorf("reply %d lost: %+v", n, got)
		}
	}
	locktest.MustRelease(t, lease)
}

// TestStatusOfAHungServer ends with its ctx.
func TestStatusOfAHungServer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	link := newLink(t, s.Addr())
	locker := s.locker(t, longTTL, link.Addr())
	mustStatus(t, locker, "r")
	for name, fault := range map[string]func(bool){
		"frozen": func(on bool) {
			if on {
				link.Freeze()
			} else {
				link.Thaw()
			}
		},
		"refused": func(on bool) { link.Refuse(on) },
	} {
		fault(true)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := locker.Status(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("status, %s: %v", name, err)
		}
		if _, err := locker.RotateIssuer(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rotate, %s: %v", name, err)
		}
		cancel()
		fault(false)
	}
}
