package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func redisVia(t *testing.T, addr string, protocol int) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestRedisRestart(t *testing.T) {
	t.Parallel()
	for _, persist := range []bool{true, false} {
		s := testenv.StartRedis(t, testenv.RedisConfig{Persist: persist})
		client := s.Client(t)
		if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		s.Restart(t)
		err := redisVia(t, s.Addr(), 3).Get(t.Context(), "k").Err()
		if persist && err != nil || !persist && !errors.Is(err, goredis.Nil) {
			t.Errorf("persist %v: get after a restart: %v", persist, err)
		}
	}
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedisSentinel(t, testenv.RedisConfig{})
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: s.Name(), SentinelAddrs: []string{s.Addr()}})
	defer client.Close()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Wait(t.Context(), 1, time.Minute).Result(); n != 1 {
		t.Fatalf("wait: %d, %v", n, err)
	}
	s.Primary.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for client.Set(ctx, "k", "w", 0).Err() != nil {
		if ctx.Err() != nil {
			t.Fatal("no replica was promoted")
		}
	}
	if got, err := s.Replica.Client(t).Get(ctx, "k").Result(); got != "w" {
		t.Errorf("at the replica: %q, %v", got, err)
	}
	s.Replica.Restart(t)
	if role, err := s.Replica.Client(t).Do(ctx, "ROLE").Slice(); err != nil || role[0] != "master" {
		t.Errorf("the replica that was promoted is started again as %v, %v", role, err)
	}
}

// TestSentinelVia: a replica is promoted, and all go through links.
func TestSentinelVia(t *testing.T) {
	t.Parallel()
	links := map[string]*testenv.Link{}
	s := testenv.StartRedisSentinelVia(t, testenv.RedisConfig{}, func(s *testenv.RedisServer) string {
		l := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{Protocol: testenv.RESP})
		links[s.Addr()] = l
		return l.Addr()
	})
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: s.Name(), SentinelAddrs: []string{s.Addr()}})
	defer client.Close()
	write := func(value int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			err := client.Set(ctx, "k", value, 0).Err()
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 2 {
		before, err := s.Leads(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		requests := links[before.Addr()].Requests()
		write(i)
		if links[before.Addr()].Requests() == requests {
			t.Error("a client did not go through the link")
		}
		if i == 0 { // the sentinel does not know it yet, and sets it right when it does
			if err := s.Replica.Client(t).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			if s.KillPrimary(t) {
				t.Fatal("the primary of a replica that is not linked was killed")
			}
		}
		// The sentinel looks at its replica every ten seconds.
		limit := time.After(2 * time.Minute)
		for poll := time.NewTicker(20 * time.Millisecond); !s.KillPrimary(t); {
			select {
			case <-poll.C:
			case <-limit:
				t.Fatal("nothing was killed")
			}
		}
		write(i)
		s.Rejoin(t) // a busy sentinel may change its mind once more
	}
}

// What was written before AwaitReplica is at the replica after it, however far
// away that is.
func TestAwaitReplica(t *testing.T) {
	t.Parallel()
	primary := testenv.StartRedis(t, testenv.RedisConfig{})
	link := testenv.NewLink(t, primary.Addr(), testenv.LinkConfig{})
	replica := testenv.StartRedis(t, testenv.RedisConfig{ReplicaOf: link.Addr()})
	testenv.AwaitReplica(t, replica)
	client, reader := primary.Client(t), replica.Client(t)
	if n := client.Wait(t.Context(), 1, time.Minute).Val(); n != 1 {
		t.Errorf("WAIT counts %d replicas", n)
	}
	link.Delay(300 * time.Millisecond)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	testenv.AwaitReplica(t, replica)
	if got, err := reader.Get(t.Context(), "k").Result(); got != "v" {
		t.Errorf("at the replica: %q, %v", got, err)
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		var addrs []string
		for _, node := range testenv.StartRedisCluster(t, n) {
			addrs = append(addrs, node.Addr())
		}
		client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs})
		defer client.Close()
		for _, key := range []string{"a", "b", "c", "d"} {
			if err := client.Set(t.Context(), key, "v", 0).Err(); err != nil {
				t.Errorf("cluster of %d: %v", n, err)
			}
		}
	}
}

func TestLinkReadsRedis(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	for _, protocol := range []int{2, 3} {
		link := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{Protocol: testenv.RESP})
		client, direct := redisVia(t, link.Addr(), protocol), s.Client(t)
		key := fmt.Sprintf("link%d-%s", protocol, link.Addr())
		messages := client.Subscribe(t.Context(), key)
		defer messages.Close()
		if _, err := messages.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		before := len(link.Paths())
		if err := client.Eval(t.Context(), "return {1, {'a', false}, ARGV[1]}", []string{key}, "what", 2).Err(); err != nil {
			t.Fatal(err)
		}
		client.Publish(t.Context(), key, "hello")
		if m, err := messages.ReceiveMessage(t.Context()); err != nil || m.Payload != "hello" {
			t.Errorf("message %v, %v", m, err)
		}
		if got := link.Paths()[before:]; !slices.Equal(got, []string{"EVAL what", "PUBLISH"}) {
			t.Errorf("paths %q", got)
		}
		link.DropReplyTo(func(path string) bool { return path == "INCR" }, 2)
		if err := client.Incr(t.Context(), key).Err(); err != nil {
			t.Errorf("first INCR: %v", err)
		}
		if err := client.Incr(t.Context(), key).Err(); err == nil {
			t.Error("second INCR got its reply")
		}
		if n, err := direct.Get(t.Context(), key).Int(); n != 2 {
			t.Errorf("INCR was run %d times: %v", n, err)
		}
	}
}

func TestShiftedRedis(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t, testenv.RedisConfig{Clock: true})
	client := s.Client(t)
	ahead := func() time.Duration {
		at, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(at)
	}
	for _, shift := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		s.ShiftClock(t, shift)
		if got := ahead(); got < shift-time.Minute || got > shift+time.Minute {
			t.Errorf("shifted by %v it is %v ahead", shift, got)
		}
	}
	s.Restart(t)
	if got := ahead(); got < -time.Minute || got > time.Minute {
		t.Errorf("started again it is %v ahead", got)
	}
}
