package nemesis

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// A lock is taken away from whoever has it, or waits for it, by somebody who may.
// If the service does not answer at the moment, or nobody has a lock, nothing
// happens.

// answerLimit is how long a service may take for that.
const answerLimit = 500 * time.Millisecond

func taken(name, target string, weight int, take func(ctx context.Context, dice *rand.Rand) bool) Fault {
	return Fault{Name: name, Target: target, Weight: weight, Begin: func(tb testing.TB, dice *rand.Rand) (func(), bool) {
		tb.Helper()
		ctx, cancel := context.WithTimeout(tb.Context(), answerLimit)
		defer cancel()
		return nil, take(ctx, dice)
	}}
}

// LeaseRevoked revokes a lease of etcd, and with it all locks of its session.
func LeaseRevoked(endpoints []string, weight int) Fault {
	return taken("etcd lease revoked", "etcd lease", weight, func(ctx context.Context, dice *rand.Rand) bool {
		client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: endpoints, DialTimeout: answerLimit, Logger: zap.NewNop()})
		if err != nil {
			return false
		}
		defer client.Close()
		leases, err := client.Leases(ctx)
		if err != nil || len(leases.Leases) == 0 {
			return false
		}
		_, err = client.Revoke(ctx, leases.Leases[dice.IntN(len(leases.Leases))].ID)
		return err == nil
	})
}

// RedisDeleted deletes who holds one lock, of those that are there.
func RedisDeleted(client *goredis.Client, weight int) Fault {
	return taken("Redis lock deleted", "Redis lock", weight, func(ctx context.Context, dice *rand.Rand) bool {
		keys, err := client.Keys(ctx, "*:held").Result()
		if err != nil || len(keys) == 0 {
			return false
		}
		return client.Del(ctx, keys[dice.IntN(len(keys))]).Err() == nil
	})
}

// NodeDeleted deletes a node of a lock of ZooKeeper below root.
func NodeDeleted(addrs []string, root string, weight int) Fault {
	return taken("ZooKeeper node deleted", "ZooKeeper node", weight, func(ctx context.Context, dice *rand.Rand) bool {
		conn, events, err := zk.Connect(addrs, 4*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
		if err != nil {
			return false
		}
		defer conn.Close()
		for connected := false; !connected; {
			select {
			case e := <-events:
				connected = e.State == zk.StateHasSession
			case <-ctx.Done():
				return false
			}
		}
		at := root
		for range 2 { // a resource, and a node of it
			children, _, err := conn.Children(at)
			// Without the issuer all tokens to come would be another's.
			children = slices.DeleteFunc(children, func(name string) bool { return strings.HasPrefix(name, ".") })
			if err != nil || len(children) == 0 {
				return false
			}
			at += "/" + children[dice.IntN(len(children))]
		}
		return conn.Delete(at, -1) == nil
	})
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// Clock shifts the clock of a server by up to two seconds, and then back.
func Clock(name string, server interface {
	ShiftClock(tb testing.TB, d time.Duration)
}, weight int,
) Fault {
	return Fault{Name: name + " clock shifted", Target: name + " clock", Weight: weight, Longest: 4 * Moment, Begin: func(tb testing.TB, dice *rand.Rand) (func(), bool) {
		tb.Helper()
		server.ShiftClock(tb, time.Duration(dice.Int64N(int64(4*time.Second)))-2*time.Second)
		return func() { server.ShiftClock(tb, 0) }, true
	}}
}
