package etcdlock_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
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
	s := newService(t, testenv.Etcd(t))
	a, b := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	if issuer := mustIssuer(t, a); issuer != "" || len(s.all(t)) != 0 {
		t.Fatalf("issuer of what nobody has used is %q, keys %v", issuer, s.all(t))
	}
	old := mustRotate(t, a, "") // made in advance

	held := locktest.MustAcquire(t, a.Acquire, "r")
	got := make(chan locks.Lease, 1)
	ctx := locktest.Context(t)
	go func() {
		lease, _ := b.Acquire(ctx, "r")
		got <- lease
	}()
	s.awaitKeys(t, "r", 2)
	fresh := mustRotate(t, b, old)

	if held.Token().Issuer != old || held.Err() != nil {
		t.Errorf("who held the lock before has %v, %v, want the issuer %s", held.Token(), held.Err(), old)
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
	waited := <-got
	if waited == nil || waited.Token().Issuer != fresh || waited.Token().Number <= held.Token().Number {
		t.Fatalf("who waited got %v, want the issuer %s", waited, fresh)
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

// TestRotateIssuerHeals: an issuer that no token can have stops every
// acquisition, but not its replacement.
func TestRotateIssuerHeals(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"", "not an id"} {
		s := newService(t, testenv.Etcd(t))
		locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
		if _, err := s.client.Put(locktest.Context(t), s.prefix+".issuer", broken); err != nil {
			t.Fatal(err)
		}
		if _, err := locker.TryAcquire(locktest.Context(t), "r"); err == nil {
			t.Errorf("acquired with the issuer %q", broken)
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
	s := newService(t, testenv.Etcd(t))
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
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
		for n := 1; n <= 4; n++ {
			s := newService(t, testenv.Etcd(t))
			link := newLink(t, s.Addr())
			near, far := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr()), s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
			old := ""
			if made {
				old = mustRotate(t, near, "")
			}
			link.DropReplyTo(isKV, n)
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
	s := newService(t, testenv.Etcd(t))
	operator := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	issuers := []string{mustRotate(t, operator, "")}
	var mu sync.Mutex
	var tokens []string // issuers, in the order of the grants
	last := int64(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for i := range 4 {
		locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
		ctx := locktest.Context(t)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				acquire := locker.Acquire
				if i == 0 {
					acquire = locker.TryAcquire
				}
				lease, err := acquire(ctx, "r")
				if errors.Is(err, locks.ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if lease.Token().Number <= last {
					t.Errorf("%v after %d", lease.Token(), last)
				}
				last = lease.Token().Number
				tokens = append(tokens, lease.Token().Issuer)
				mu.Unlock()
				if err := lease.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		grants := func() int { mu.Lock(); defer mu.Unlock(); return len(tokens) }
		n := grants()
		locktest.Await(t, func() bool { return grants() >= n+5 || t.Failed() })
		issuers = append(issuers, mustRotate(t, operator, mustIssuer(t, operator)))
		check := locktest.MustAcquire(t, operator.Acquire, "other")
		if got := check.Token().Issuer; got != issuers[len(issuers)-1] {
			t.Errorf("acquired with the issuer %q after %q", got, issuers)
		}
		locktest.MustRelease(t, check)
	}
	mu.Lock()
	defer mu.Unlock()
	at := 0
	for i, issuer := range tokens {
		now := slices.Index(issuers, issuer)
		if now < at {
			t.Fatalf("grant %d of %d has issuer %d, after %d", i, len(tokens), now, at)
		}
		at = now
	}
	if at < len(issuers)-2 {
		t.Errorf("grants saw only the first %d of %d issuers", at+1, len(issuers))
	}
}
