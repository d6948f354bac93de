package etcdlock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// TestCluster has the faults that need members of a cluster. They run one
// after the other, on one cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartEtcd(t, testenv.EtcdConfig{Members: 3}))
	t.Run("leader stopped past the TTL", s.testLeaderStopped)
	t.Run("leader stopped, others reachable", s.testFailover)
	t.Run("elections after a crash", s.testElections)
}

// testLeaderStopped: etcd #15247, #12528 (a leader that hangs). The holder
// reaches only the leader.
func (s *service) testLeaderStopped(t *testing.T) {
	leader, others := s.leader(t)
	old := s.locker(t, etcdlock.Config{TTL: shortTTL}, leader.Endpoint())
	next := s.locker(t, etcdlock.Config{TTL: longTTL}, endpoints(others)...)
	first := locktest.MustAcquire(t, old.Acquire, "stopped")
	deadline := first.Deadline()
	leader.Freeze(t)
	second := locktest.MustAcquire(t, next.Acquire, "stopped")
	// It was granted although the old holder heard nothing; that one knows all
	// the same, since its deadline was before.
	select {
	case <-first.Lost():
	default:
		t.Error("Lost is open while somebody else holds the lock")
	}
	if err := first.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err: %v", err)
	}
	if now := time.Now(); now.Before(deadline) {
		t.Errorf("granted %v before the old holder's deadline", deadline.Sub(now))
	}
	if second.Token().Number <= first.Token().Number {
		t.Errorf("token %v after %v", second.Token(), first.Token())
	}
	leader.Thaw(t)
	if err := first.Release(locktest.Context(t)); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Release: %v", err)
	}
	if err := second.Err(); err != nil {
		t.Error(err)
	}
	locktest.MustRelease(t, second)
	third := locktest.MustAcquire(t, old.Acquire, "stopped")
	if third.Token().Number <= second.Token().Number {
		t.Errorf("token %v after %v", third.Token(), second.Token())
	}
	locktest.MustRelease(t, third)
}

// testFailover: whoever reaches the other members too keeps its locks and its
// places, since each renewal and each request that hangs is sent again, to
// another member.
func (s *service) testFailover(t *testing.T) {
	const ttl = 15 * time.Second
	leader, _ := s.leader(t)
	a := s.locker(t, etcdlock.Config{TTL: ttl}, s.etcd.Endpoints()...)
	b := s.locker(t, etcdlock.Config{TTL: ttl}, s.etcd.Endpoints()...)
	held := locktest.MustAcquire(t, a.Acquire, "failover")
	got := start(t, b.Acquire, "failover")
	s.awaitKeys(t, "failover", 2)
	leader.Freeze(t)
	defer leader.Thaw(t)
	end := time.Now().Add(ttl)
	locktest.Await(t, func() bool { return held.Err() != nil || held.Deadline().After(end) })
	if err := held.Err(); err != nil {
		t.Fatalf("lease was lost although two of three members answer: %v", err)
	}
	select {
	case err := <-got:
		t.Fatalf("waiter: %v", err)
	default:
	}
	if err := held.Release(locktest.Context(t)); err != nil {
		t.Logf("release: %v", err) // then it goes on in the background
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

// testElections: etcd #9888, #9395. Each election gives every lease its whole
// TTL again, so that the lock of a holder that crashed may last longer than
// its TTL; it does end.
func (s *service) testElections(t *testing.T) {
	link := newLink(t, s.Addr())
	crashed := s.locker(t, etcdlock.Config{TTL: shortTTL}, link.Addr())
	next := s.locker(t, etcdlock.Config{TTL: longTTL}, s.etcd.Endpoints()...)
	first := locktest.MustAcquire(t, crashed.Acquire, "elections")
	link.Refuse(true)
	for range 3 {
		s.moveLeader(t)
	}
	second := locktest.MustAcquire(t, next.Acquire, "elections")
	if err := first.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err: %v", err)
	}
	if second.Token().Number <= first.Token().Number {
		t.Errorf("token %v after %v", second.Token(), first.Token())
	}
	locktest.MustRelease(t, second)
}

// leader returns the leader and the other members.
func (s *service) leader(tb testing.TB) (leader *testenv.EtcdMember, others []*testenv.EtcdMember) {
	tb.Helper()
	locktest.Await(tb, func() bool {
		leader, others = nil, nil
		for _, m := range s.etcd.Members() {
			status, err := s.client.Status(locktest.Context(tb), m.Endpoint())
			if err == nil && status.Leader == status.Header.MemberId {
				leader = m
			} else {
				others = append(others, m)
			}
		}
		return leader != nil
	})
	return leader, others
}

// moveLeader makes another member the leader.
func (s *service) moveLeader(tb testing.TB) {
	tb.Helper()
	leader, others := s.leader(tb)
	target, err := s.client.Status(locktest.Context(tb), others[0].Endpoint())
	if err != nil {
		tb.Fatal(err)
	}
	client := connect(tb, s.etcd, leader.Endpoint())
	if _, err := client.MoveLeader(locktest.Context(tb), target.Header.MemberId); err != nil {
		tb.Fatal(err)
	}
}

func endpoints(members []*testenv.EtcdMember) []string {
	var list []string
	for _, m := range members {
		list = append(list, m.Endpoint())
	}
	return slices.Clip(list)
}
