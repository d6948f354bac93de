package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
)

const (
	oldestRedis = 6
	// clockTolerance is how far clocks may be apart before it is worth a word.
	clockTolerance = time.Second
)

// redis looks at each server that decides about locks: all primaries of a
// Cluster, else the one.
func (d *lockDoctor) redis(ctx context.Context) error {
	client, err := d.target.RedisClient()
	if err != nil {
		return err
	}
	defer client.Close()
	d.bounds(connect.MinTTL, 0)
	cluster, ok := client.(*goredis.ClusterClient)
	if !ok {
		server, err := askRedis(ctx, client)
		if err != nil {
			return err
		}
		if server.info["cluster_enabled"] == "1" {
			d.add("cluster", levelWrong, "use redis+cluster://", "this is a server of a Cluster, and the URL is that of a single one")
		}
		d.redisServers(map[string]redisServer{"": server})
		return nil
	}
	var mu sync.Mutex
	servers := map[string]redisServer{}
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, client *goredis.Client) error {
		server, err := askRedis(ctx, client)
		mu.Lock()
		defer mu.Unlock()
		servers[client.Options().Addr] = server
		return err
	})
	if err != nil {
		return err
	}
	d.add("cluster", levelOK, "", "%d primaries", len(servers))
	d.redisServers(servers)
	return nil
}

// redisServer is what a server says of itself.
type redisServer struct {
	info map[string]string // by INFO's names; nil if it may not be read
	// ahead is by how much its clock is ahead of this machine's, to within
	// about error.
	ahead, error time.Duration
}

func askRedis(ctx context.Context, client goredis.UniversalClient) (redisServer, error) {
	s := redisServer{error: time.Hour}
	text, err := client.Info(ctx).Result()
	switch {
	case err == nil:
		s.info = map[string]string{}
		for line := range strings.SplitSeq(text, "\r\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				s.info[name] = value
			}
		}
	case !goredis.HasErrorPrefix(err, "NOPERM") && !goredis.HasErrorPrefix(err, "unknown command"):
		return s, err
	}
	// The shortest of several round trips tells best.
	for range 5 {
		start := time.Now()
		now, err := client.Time(ctx).Result()
		if err != nil {
			return s, err
		}
		half := time.Since(start) / 2
		if half < s.error {
			s.ahead, s.error = now.Sub(start.Add(half)), half
		}
	}
	return s, nil
}

func (d *lockDoctor) redisServers(servers map[string]redisServer) {
	names := slices.Sorted(maps.Keys(servers))
	for _, name := range names {
		d.redisServer(name, servers[name])
	}
	low, high := servers[names[0]], servers[names[0]]
	for _, s := range servers {
		if s.ahead < low.ahead {
			low = s
		}
		if s.ahead > high.ahead {
			high = s
		}
	}
	if apart := high.ahead - low.ahead - high.error - low.error; apart > clockTolerance {
		d.add("clocks", levelWarning, "let them follow the same time servers",
			"of the primaries are %s apart: after a failover or a move of slots, numbers that were lost go on with the other clock", shortly(apart))
	}
}

func (d *lockDoctor) redisServer(name string, s redisServer) {
	if s.info == nil {
		d.addOf(name, "server", levelWrong, "ACL SETUSER … +info, or Config.SkipPolicyCheck in a program of yours",
			"INFO is not permitted: whether it may evict locks cannot be known, and no lock is granted")
	} else {
		d.redisInfo(name, s.info)
	}
	ahead := fmt.Sprintf("%s ahead of this machine's (± %s)", shortly(s.ahead), shortly(s.error))
	if s.ahead < 0 {
		ahead = fmt.Sprintf("%s behind this machine's (± %s)", shortly(-s.ahead), shortly(s.error))
	}
	if s.ahead.Abs()-s.error > clockTolerance {
		d.addOf(name, "clock", levelWarning, "let both follow a time server; never set the clock of Redis back",
			"%s: where Redis has lost a number, the next comes from its clock", ahead)
	} else {
		d.addOf(name, "clock", levelOK, "", "%s", ahead)
	}
}

func (d *lockDoctor) redisInfo(name string, info map[string]string) {
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestRedis {
		d.addOf(name, "server", levelWrong, "use a newer one", "Redis %s, and locks take %d or later", version, oldestRedis)
	} else {
		d.addOf(name, "server", levelOK, "", "Redis %s", version)
	}
	if info["role"] == "slave" {
		d.addOf(name, "role", levelWrong, "use the URL of the primary, or redis+sentinel://", "a replica, which takes no writes")
	}
	if policy := info["maxmemory_policy"]; policy == "noeviction" {
		d.addOf(name, "eviction", levelOK, "", "maxmemory-policy %s", policy)
	} else {
		d.addOf(name, "eviction", levelWrong, "CONFIG SET maxmemory-policy noeviction, and in redis.conf", "maxmemory-policy %s may evict locks: none is granted", policy)
	}
	if info["aof_enabled"] == "1" {
		d.addOf(name, "persistence", levelOK, "", "every write is logged (appendonly yes)")
	} else {
		d.addOf(name, "persistence", levelNote, "appendonly yes",
			"a restart forgets locks that are held, and they are granted anew; numbers go on by the clock, so the resource refuses the old holder")
	}
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	if wanted := d.target.Replicas(); wanted > replicas {
		d.addOf(name, "replicas", levelWrong, "", "%d, and the URL wants grants acknowledged by %d", replicas, wanted)
	} else {
		d.addOf(name, "replicas", levelOK, "", "%d, of which %d acknowledge each grant", replicas, wanted)
	}
}
