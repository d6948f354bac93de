package etcdlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

func TestClose(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	other := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	held := locktest.MustAcquire(t, other.Acquire, "theirs")
	lease := locktest.MustAcquire(t, locker.Acquire, "ours")
	waiting := start(t, locker.Acquire, "theirs")
	s.awaitKeys(t, "theirs", 2)
	id := s.sessionOf(t, "ours")
	for range 2 {
		if err := locker.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-waiting; !errors.Is(err, locks.ErrClosed) || !errors.Is(err, locks.ErrLost) {
		t.Errorf("acquire that Close ended: %v", err)
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrClosed) || !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err of a lease that Close ended: %v", err)
	}
	if err := lease.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release of a lease that Close ended: %v", err)
	}
	if _, err := locker.Acquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrClosed) || errors.Is(err, locks.ErrLost) {
		t.Errorf("Acquire after Close: %v", err)
	}
	if s.alive(t, id) {
		t.Error("session outlives Close")
	}
	s.wantKeys(t, "ours", 0)
	s.wantKeys(t, "theirs", 1)
	locktest.MustRelease(t, held)
}

// TestCloseHangs: Close returns although etcd does not answer.
func TestCloseHangs(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	link.Freeze()
	err := locker.Close()
	if err == nil || !strings.Contains(err.Error(), "revoke session") {
		t.Errorf("Close: %v", err)
	}
	if err := lease.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err: %v", err)
	}
	link.Thaw()
}

// TestClientClosed: the client was closed under the locker.
func TestClientClosed(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	client := connect(t, s.etcd, s.Addr())
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: longTTL, Prefix: s.prefix})
	if err != nil {
		t.Fatal(err)
	}
	lease := locktest.MustAcquire(t, locker.Acquire, "r")
	client.Close()
	lostSoon(t, lease)
	if _, err := locker.Acquire(locktest.Context(t), "r"); !errors.Is(err, locks.ErrClosed) {
		t.Errorf("Acquire: %v", err)
	}
	if err := locker.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestUnreachable: no etcd there is an error that says so, not a hang; and
// with a ctx that ends sooner, sooner (etcd #18089).
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	link.Refuse(true)
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	if _, err := locker.Acquire(locktest.Context(t), "r"); err == nil || !strings.Contains(err.Error(), link.Addr()) {
		t.Errorf("Acquire: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := locker.TryAcquire(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TryAcquire: %v", err)
	}
	link.Refuse(false)
	locktest.MustRelease(t, locktest.MustAcquire(t, locker.Acquire, "r"))
}

// TestCancelWhileUnreachable: etcd #18082 (Lock hung in its clean-up).
func TestCancelWhileUnreachable(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	holder := s.locker(t, etcdlock.Config{TTL: longTTL}, s.Addr())
	locker := s.locker(t, etcdlock.Config{TTL: longTTL}, link.Addr())
	held := locktest.MustAcquire(t, holder.Acquire, "r")
	ctx, cancel := context.WithCancel(locktest.Context(t))
	got := make(chan error, 1)
	go func() {
		_, err := locker.Acquire(ctx, "r")
		got <- err
	}()
	s.awaitKeys(t, "r", 2)
	link.Refuse(true)
	cancel()
	select {
	case err := <-got:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire: %v", err)
		}
	case <-time.After(soon):
		t.Fatal("Acquire hangs with a ctx that has ended")
	}
	link.Refuse(false)
	s.awaitKeys(t, "r", 1) // removed as soon as etcd can be reached
	locktest.MustRelease(t, held)
}
