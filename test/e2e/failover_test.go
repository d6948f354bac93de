package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

const resource = "orders"

// pair is a Redis and its replica, which can be kept from hearing of what
// happens.
type pair struct {
	primary, replica *testenv.RedisServer
	link             *testenv.Link
}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: testenv.StartRedis(t, testenv.RedisConfig{})}
	p.link = testenv.NewLink(t, p.primary.Addr(), testenv.LinkConfig{})
	p.replica = testenv.StartRedis(t, testenv.RedisConfig{ReplicaOf: p.link.Addr()})
	testenv.AwaitReplica(t, p.replica)
	return p
}

// cutOff keeps from the replica what comes from now on. It has all before.
func (p *pair) cutOff(t *testing.T) {
	t.Helper()
	conn := p.primary.Client(t).Conn()
	defer conn.Close()
	must(conn.Set(t.Context(), "e2e:last", "", 0).Result())(t)
	if n := must(conn.Wait(t.Context(), 1, patience).Result())(t); n != 1 {
		t.Fatalf("%d replicas are in step", n)
	}
	p.link.Freeze()
}

// promote makes the replica a primary, with what it knows.
func (p *pair) promote(t *testing.T) {
	t.Helper()
	if err := p.replica.Client(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
}

func redisURL(s *testenv.RedisServer) string {
	return "redis://" + s.Addr() + "?issuer=e2e&prefix=e2e:"
}

func floorLocker(t *testing.T, s *testenv.RedisServer) locks.FloorLocker {
	t.Helper()
	locker, ok := open(t, redisURL(s)).(locks.FloorLocker)
	if !ok {
		t.Fatal("locks in Redis cannot be asked for a higher number")
	}
	return locker
}

// TestRedisFailover promotes a replica that lags behind while a lock is held, so
// that it is granted again. The two holders may even get one number, where the
// number is ahead of the clock; never do both pass a claim with it. The one who
// is healed works, and the older is refused.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	for _, numbers := range []string{"of the clock", "ahead of the clock"} {
		for _, first := range []string{"old", "new"} {
			t.Run("numbers "+numbers+", "+first+" holder claims first", func(t *testing.T) {
				t.Parallel()
				ctx, a, p := testContext(t), openAccount(t), startPair(t)
				if numbers != "of the clock" { // as after a Floor, or clocks that were set back
					ahead := time.Now().Add(time.Hour).UnixMicro()
					must(p.primary.Client(t).Set(ctx, "e2e:{"+locks.Segment(resource)+"}:number", ahead, 0).Result())(t)
				}
				lease := must(floorLocker(t, p.primary).Acquire(ctx, resource))(t)
				if err := lease.Release(ctx); err != nil {
					t.Fatal(err)
				}
				p.cutOff(t)
				old := must(floorLocker(t, p.primary).Acquire(ctx, resource))(t)
				if first == "old" {
					if err := a.claimAndAdd(ctx, old, 1); err != nil {
						t.Fatalf("the only holder was refused: %v", err)
					}
				}
				p.promote(t)

				locker := floorLocker(t, p.replica)
				var tokens []guard.Token
				err := locks.Heal(ctx, locker, resource, func(ctx context.Context, lease locks.Lease) error {
					tokens = append(tokens, lease.Token())
					if err := old.Err(); err != nil {
						t.Errorf("there are no two holders: %v", err)
					}
					return a.claimAndAdd(ctx, lease, 10)
				})
				if err != nil {
					t.Fatalf("the new holder was refused: %v", err)
				}
				t.Logf("old %v, new %v", old.Token(), tokens)
				twice := numbers != "of the clock"
				if got := tokens[0].Number == old.Token().Number; got != twice {
					t.Errorf("one number twice: %v, want %v", got, twice)
				}
				if healed := len(tokens) == 2; healed != (twice && first == "old") {
					t.Errorf("the new holder was granted %d times", len(tokens))
				}
				err = a.claimAndAdd(ctx, old, 100)
				if !errors.Is(err, guard.ErrStale) && !errors.Is(err, guard.ErrDuplicate) || guard.OutcomeOf(err) != guard.Refused {
					t.Errorf("the old holder was not refused: %v", err)
				}
				if err := a.add(ctx, old, 1000); guard.OutcomeOf(err) != guard.Refused {
					t.Errorf("a write of the old holder was not refused: %v", err)
				}
				if first == "old" {
					a.want(t, 1, 10)
				} else {
					a.want(t, 10)
				}
				a.inOrder(t)
				if n := a.number(t, "select count(*) from (select number from deposits group by number having count(*) > 1) d"); n != 0 {
					t.Errorf("%d numbers wrote twice", n)
				}
			})
		}
	}
}

// TestRedisForgets all it knows while a lock is held, again and again: each next
// number is above all before, and Postgres admits it.
func TestRedisForgets(t *testing.T) {
	t.Parallel()
	ctx, a, redis := testContext(t), openAccount(t), testenv.StartRedis(t, testenv.RedisConfig{})
	locker, client := open(t, redisURL(redis)), redis.Client(t)
	var before locks.Lease
	for range 5 {
		lease := must(locker.Acquire(ctx, resource))(t)
		if before != nil {
			if lease.Token().Number <= before.Token().Number {
				t.Errorf("%v was granted after %v", lease.Token(), before.Token())
			}
		}
		if err := a.claimAndAdd(ctx, lease, 1); err != nil {
			t.Fatalf("the current holder was refused: %v", err)
		}
		if before != nil {
			if err := a.add(ctx, before, 100); !errors.Is(err, guard.ErrStale) {
				t.Errorf("a write of the holder before: %v", err)
			}
		}
		before = lease
		if err := client.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	a.want(t, 1, 1, 1, 1, 1)
	a.inOrder(t)
}
