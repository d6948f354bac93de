package redislock_test

import (
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

// slot is a slot of a Cluster that moves from one node to another.
type slot struct {
	from, to     *goredis.Client
	fromID, toID string
	number       int64
	target       string // host:port of to
}

func slotOf(t *testing.T, nodes []*testenv.RedisServer, key string) *slot {
	t.Helper()
	s := &slot{}
	for _, node := range nodes {
		client := node.Client(t)
		s.number = client.ClusterKeySlot(locktest.Context(t), key).Val()
		id := client.ClusterMyID(locktest.Context(t)).Val()
		if client.Exists(locktest.Context(t), key).Val() == 1 {
			s.from, s.fromID = client, id
		} else {
			s.to, s.toID, s.target = client, id, node.Addr()
		}
	}
	if s.from == nil {
		t.Fatalf("no node has %s", key)
	}
	return s
}

func do(t *testing.T, client *goredis.Client, args ...any) {
	t.Helper()
	if err := client.Do(locktest.Context(t), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// begin tells both nodes, and moves the first key.
func (s *slot) begin(t *testing.T) {
	t.Helper()
	do(t, s.to, "CLUSTER", "SETSLOT", s.number, "IMPORTING", s.fromID)
	do(t, s.from, "CLUSTER", "SETSLOT", s.number, "MIGRATING", s.toID)
	s.move(t, 1)
}

func (s *slot) move(t *testing.T, n int) {
	t.Helper()
	host, port, _ := net.SplitHostPort(s.target)
	for _, key := range s.from.ClusterGetKeysInSlot(locktest.Context(t), int(s.number), n).Val() {
		do(t, s.from, "MIGRATE", host, port, key, 0, 5000)
	}
}

func (s *slot) end(t *testing.T) {
	t.Helper()
	s.move(t, 100)
	do(t, s.to, "CLUSTER", "SETSLOT", s.number, "NODE", s.toID)
	do(t, s.from, "CLUSTER", "SETSLOT", s.number, "NODE", s.toID)
}

// TestSlotMoves: while the keys of a lock are on two nodes of a Cluster nobody
// can do anything with it; what is held and waited for is so afterwards too, if
// that takes less than the TTL.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := testenv.StartRedisCluster(t, 3)
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
	}
	const ttl = 9 * time.Second
	open := func() *redislock.Locker {
		client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs})
		t.Cleanup(func() { client.Close() })
		return newLocker(t, client, redislock.Config{TTL: ttl, Prefix: "p:"})
	}
	a, b := open(), open()
	held := locktest.MustAcquire(t, a.Acquire, "r")
	waiting := locktest.Background(locktest.Context(t), t, b.Acquire, "r")
	s := slotOf(t, nodes, "p:{r}:held")
	locktest.Await(t, func() bool { return s.from.ZCard(locktest.Context(t), "p:{r}:queue").Val() == 1 })
	s.begin(t)
	before := held.Deadline()
	<-time.After(ttl / 3) // a renewal is due in that time
	late := locktest.Background(locktest.Context(t), t, a.Acquire, "r")
	s.end(t)
	locktest.Await(t, func() bool { return held.Deadline().After(before.Add(ttl/3)) || held.Err() != nil })
	locktest.WantHeld(t, held)
	if len(waiting)+len(late) > 0 {
		t.Fatal("two hold the lock")
	}
	locktest.MustRelease(t, held)
	second := locktest.WantGrant(t, waiting)
	locktest.MustRelease(t, second)
	third := locktest.WantGrant(t, late)
	locktest.WantRising(t, held, second, third)
	locktest.MustRelease(t, third)
}

// TestRightsAreTakenAway: a user that may do nothing any more has lost its lock by
// its deadline, and nobody else has it before; one that gets its rights back in
// time keeps it.
func TestRightsAreTakenAway(t *testing.T) {
	t.Parallel()
	const ttl = 2 * shortTTL // half of which is slept away
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	client := s.user(t, "u", append(leastRights, "&"+s.prefix+"*")...)
	locker := newLocker(t, client, redislock.Config{Prefix: s.prefix, TTL: ttl})
	other := s.locker(t, redislock.Config{TTL: ttl}, s.Addr())
	held := locktest.MustAcquire(t, locker.Acquire, "r")
	takeAway := func() { do(t, s.client, "ACL", "SETUSER", "u", "-@all") }
	giveBack := func() { do(t, s.client, append([]any{"ACL", "SETUSER", "u"}, leastRights...)...) }

	takeAway()
	before := held.Deadline()
	if _, err := locker.Acquire(locktest.Context(t), "another"); err == nil || !strings.Contains(err.Error(), "user may not") {
		t.Errorf("acquire without rights: %v", err)
	}
	<-time.After(time.Until(before) / 2)
	giveBack()
	locktest.Await(t, func() bool { return held.Deadline().After(before) || held.Err() != nil })
	locktest.WantHeld(t, held)

	waiting := locktest.Background(locktest.Context(t), t, other.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	takeAway()
	next := locktest.WantGrant(t, waiting)
	if err := held.Err(); err == nil {
		t.Error("two hold the lock, and the first one does not know")
	}
	locktest.WantRising(t, held, next)
	_ = held.Release(locktest.Context(t))
	locktest.WantHeld(t, next)
	giveBack() // so that nothing is left behind
}
