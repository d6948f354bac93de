package redislock_test

import (
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
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
		s.number = client.ClusterKeySlot(testContext(t), key).Val()
		id := client.ClusterMyID(testContext(t)).Val()
		if client.Exists(testContext(t), key).Val() == 1 {
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
	if err := client.Do(testContext(t), args...).Err(); err != nil {
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
	for _, key := range s.from.ClusterGetKeysInSlot(testContext(t), int(s.number), n).Val() {
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
	held := mustAcquire(t, a.Acquire, "r")
	waiting := background(testContext(t), t, b.Acquire, "r")
	s := slotOf(t, nodes, "p:{r}:held")
	await(t, func() bool { return s.from.ZCard(testContext(t), "p:{r}:queue").Val() == 1 })
	s.begin(t)
	before := held.Deadline()
	<-time.After(ttl / 3) // a renewal is due in that time
	late := background(testContext(t), t, a.Acquire, "r")
	s.end(t)
	await(t, func() bool { return held.Deadline().After(before.Add(ttl/3)) || held.Err() != nil })
	wantHeld(t, held)
	if len(waiting)+len(late) > 0 {
		t.Fatal("two hold the lock")
	}
	mustRelease(t, held)
	second := wantGrant(t, waiting)
	mustRelease(t, second)
	third := wantGrant(t, late)
	wantRising(t, held, second, third)
	mustRelease(t, third)
}

// TestRightsAreTakenAway: a user that may do nothing any more has lost its lock by
// its deadline, and nobody else has it before; one that gets its rights back in
// time keeps it.
func TestRightsAreTakenAway(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.StartRedis(t, testenv.RedisConfig{}))
	client := s.user(t, "u", append(leastRights, "&"+s.prefix+"*")...)
	locker := newLocker(t, client, redislock.Config{Prefix: s.prefix, TTL: shortTTL})
	other := s.locker(t, redislock.Config{TTL: shortTTL}, s.Addr())
	held := mustAcquire(t, locker.Acquire, "r")
	takeAway := func() { do(t, s.client, "ACL", "SETUSER", "u", "-@all") }
	giveBack := func() { do(t, s.client, append([]any{"ACL", "SETUSER", "u"}, leastRights...)...) }

	takeAway()
	before := held.Deadline()
	if _, err := locker.Acquire(testContext(t), "another"); err == nil || !strings.Contains(err.Error(), "user may not") {
		t.Errorf("acquire without rights: %v", err)
	}
	<-time.After(time.Until(before) / 2)
	giveBack()
	await(t, func() bool { return held.Deadline().After(before) || held.Err() != nil })
	wantHeld(t, held)

	waiting := background(testContext(t), t, other.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	takeAway()
	next := wantGrant(t, waiting)
	if err := held.Err(); err == nil {
		t.Error("two hold the lock, and the first one does not know")
	}
	wantRising(t, held, next)
	_ = held.Release(testContext(t))
	wantHeld(t, next)
	giveBack() // so that nothing is left behind
}
