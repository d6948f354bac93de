package zklock_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func mustIssuer(tb testing.TB, locker locks.IssuerLocker) string {
	tb.Helper()
	issuer, err := locker.Issuer(locktest.Context(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return issuer
}

func mustRotate(tb testing.TB, locker locks.IssuerLocker, old string) string {
	tb.Helper()
	fresh, err := locker.RotateIssuer(locktest.Context(tb), old)
	if err != nil {
		tb.Fatal(err)
	}
	if fresh == "" || fresh == old || mustIssuer(tb, locker) != fresh {
		tb.Fatalf("%q was replaced by %q, and is %q", old, fresh, mustIssuer(tb, locker))
	}
	return fresh
}

func TestRotateIssuer(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	a, b := s.near(t), s.near(t)
	if issuer := mustIssuer(t, a); issuer != "" || len(s.tree(t, s.root)) != 0 {
		t.Fatalf("issuer of what nobody has used is %q, nodes %v", issuer, s.tree(t, s.root))
	}
	old := mustRotate(t, a, "") // made in advance

	held := locktest.MustAcquire(t, a.Acquire, "r")
	got := locktest.Background(locktest.Context(t), t, b.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	fresh := mustRotate(t, b, old)

	locktest.WantHeld(t, held)
	if held.Token().Issuer != old {
		t.Errorf("who held the lock before has %v, want the issuer %s", held.Token(), old)
	}
	if p := mustStatus(t, a, "r").Holders[0]; p.Issuer != "" {
		t.Errorf("the issuer of a lease from before is told to be %q, and it is %q", p.Issuer, old)
	}
	other := locktest.MustAcquire(t, a.TryAcquire, "other")
	if other.Token().Issuer != fresh {
		t.Errorf("what is acquired later has the issuer %q, want %q", other.Token().Issuer, fresh)
	}
	if token, ok := mustStatus(t, a, "other").Holders[0].Token("other"); !ok || token != other.Token() {
		t.Errorf("token %v, %v, want %v", token, ok, other.Token())
	}
	locktest.MustRelease(t, held)
	waited := locktest.WantGrant(t, got)
	if waited.Token().Issuer != fresh || waited.Token().Number <= held.Token().Number {
		t.Errorf("who waited got %v, want the issuer %s", waited.Token(), fresh)
	}
	locktest.MustRelease(t, waited)
	locktest.MustRelease(t, other)

	for _, wrong := range []string{old, "", "x"} {
		if _, err := a.RotateIssuer(locktest.Context(t), wrong); !errors.Is(err, locks.ErrIssuerChanged) {
			t.Errorf("replace %q: %v", wrong, err)
		}
	}
	if now := mustIssuer(t, a); now != fresh {
		t.Errorf("issuer is %q after a refusal, was %q", now, fresh)
	}
}

// TestRotateIssuerHeals: issuers that no token can have stop every acquisition,
// but not their replacement.
func TestRotateIssuerHeals(t *testing.T) {
	t.Parallel()
	for _, broken := range [][]string{{}, {"not an id"}, {"one", "two"}} {
		s := newService(t, testenv.ZooKeeper(t))
		s.create(t, s.root, zk.FlagPersistent)
		s.create(t, s.root+"/.issuer", zk.FlagPersistent)
		for _, name := range broken {
			s.create(t, s.root+"/.issuer/"+name, zk.FlagPersistent)
		}
		locker := s.near(t)
		if len(broken) > 0 {
			if _, err := locker.TryAcquire(locktest.Context(t), "r"); err == nil {
				t.Errorf("acquired with the issuers %q", broken)
			}
		}
		fresh := mustRotate(t, locker, mustIssuer(t, locker))
		lease := locktest.MustAcquire(t, locker.Acquire, "r")
		if lease.Token().Issuer != fresh {
			t.Errorf("token %v, want the issuer %q", lease.Token(), fresh)
		}
		locktest.MustRelease(t, lease)
	}
}

// TestRotateIssuerOnce: of several who replace one issuer, one does.
func TestRotateIssuerOnce(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	locker := s.near(t)
	old := ""
	for range 5 {
		var mu sync.Mutex
		var made []string
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				fresh, err := locker.RotateIssuer(locktest.Context(t), old)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					made = append(made, fresh)
				} else if !errors.Is(err, locks.ErrIssuerChanged) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(made) != 1 || made[0] != mustIssuer(t, locker) {
			t.Fatalf("replaced by %q, and is %q", made, mustIssuer(t, locker))
		}
		old = made[0]
	}
}

// TestRotateIssuerLostReply: whichever reply is lost, the issuer is replaced
// once, and it is told by which.
func TestRotateIssuerLostReply(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{false, true} {
		for n := 1; n <= 8; n++ {
			s := newService(t, testenv.ZooKeeper(t))
			link := newLink(t, s.Addr())
			near, far := s.near(t), s.locker(t, longTTL, link.Addr())
			old := ""
			if made {
				old = mustRotate(t, near, "")
			}
			link.DropReplyTo(func(string) bool { return true }, n)
			fresh, err := far.RotateIssuer(locktest.Context(t), old)
			if err != nil || fresh == old || mustIssuer(t, near) != fresh {
				t.Errorf("reply %d lost: %q was replaced by %q, %v, and is %q", n, old, fresh, err, mustIssuer(t, near))
			}
		}
	}
}

// TestRotateIssuerUnderLoad: in the order of the grants no issuer comes back,
// and after a rotation there is none of an older one.
func TestRotateIssuerUnderLoad(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	operator := s.near(t)
	issuers := []string{mustRotate(t, operator, "")}
	load := startLoad(t, func() *zklock.Locker { return s.near(t) })
	for range 20 {
		load.await(5)
		issuers = append(issuers, mustRotate(t, operator, issuers[len(issuers)-1]))
		check := locktest.MustAcquire(t, operator.Acquire, "other")
		if got := check.Token().Issuer; got != issuers[len(issuers)-1] {
			t.Errorf("acquired with the issuer %q after %q", got, issuers)
		}
		locktest.MustRelease(t, check)
	}
	at := 0
	for i, issuer := range load.stop() {
		now := slices.Index(issuers, issuer)
		if now < at {
			t.Fatalf("grant %d has issuer %d of %d, after %d", i, now, len(issuers), at)
		}
		at = now
	}
	if at < len(issuers)-2 {
		t.Errorf("grants saw only the first %d of %d issuers", at+1, len(issuers))
	}
}

// load is others who acquire and release one lock.
type load struct {
	t    *testing.T
	end  chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	last int64
	seen []string // issuers, in the order of the grants
}

func startLoad(t *testing.T, open func() *zklock.Locker) *load {
	t.Helper()
	l := &load{t: t, end: make(chan struct{})}
	t.Cleanup(func() { l.stop() })
	for i := range 4 {
		locker := open()
		acquire := locker.Acquire
		if i == 0 {
			acquire = locker.TryAcquire
		}
		l.wg.Go(func() {
			for !closed(l.end) {
				l.once(acquire)
			}
		})
	}
	return l
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *load) once(acquire locktest.AcquireFunc) {
	lease, err := acquire(locktest.Context(l.t), "r")
	if errors.Is(err, locks.ErrHeld) {
		return
	}
	if err != nil {
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	if lease.Token().Number <= l.last {
		l.t.Errorf("%v after %d", lease.Token(), l.last)
	}
	l.last = lease.Token().Number
	l.seen = append(l.seen, lease.Token().Issuer)
	l.mu.Unlock()
	if err := lease.Release(locktest.Context(l.t)); err != nil {
		l.t.Error(err)
	}
}

// await waits for more grants.
func (l *load) await(more int) {
	l.t.Helper()
	grants := func() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.seen) }
	n := grants()
	locktest.Await(l.t, func() bool { return grants() >= n+more || l.t.Failed() })
}

func (l *load) stop() []string {
	if !closed(l.end) {
		close(l.end)
	}
	l.wg.Wait()
	return l.seen
}
