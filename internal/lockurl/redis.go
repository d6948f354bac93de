package lockurl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

const (
	// defaultIssuer is the issuer of all Redis that have no other. Their numbers
	// come from a clock, so that one that takes over from another goes on.
	defaultIssuer = "redis"
	// answerTimeout bounds a request to Redis; locks ask again.
	answerTimeout = 3 * time.Second
)

func checkRedis(t *Target) error {
	if err := guard.ValidateID(t.query.Get("issuer")); err != nil {
		return errors.New("parameter issuer is not 1 to 64 of [A-Za-z0-9_-]")
	}
	if text := t.query.Get("replicas"); text != "" {
		if _, err := strconv.ParseUint(text, 10, 8); err != nil {
			return errors.New("parameter replicas is not a number")
		}
	}
	if t.scheme == "redis+sentinel" && t.query.Get("master") == "" {
		return errors.New("parameter master is missing: the name that the sentinels call the primary")
	}
	if t.path != "" {
		_, err := strconv.ParseUint(t.path, 10, 16)
		if t.scheme == "redis+cluster" || err != nil {
			return errors.New("its path is not the number of a database, like /0; a Cluster has none")
		}
	}
	return nil
}

func (t *Target) database() int {
	number, _ := strconv.Atoi(t.path) // Parse has checked it
	return number
}

// Replicas is how many replicas of Redis are to acknowledge a grant.
func (t *Target) Replicas() int {
	number, _ := strconv.Atoi(t.query.Get("replicas")) // Parse has checked it
	return number
}

func openRedis(_ context.Context, t *Target, ttl time.Duration) (*Service, error) {
	client, err := t.RedisClient()
	if err != nil {
		return nil, err
	}
	config := redislock.Config{Issuer: t.query.Get("issuer"), TTL: ttl, Prefix: t.query.Get("prefix"), Replicas: t.Replicas()}
	if config.Issuer == "" {
		config.Issuer = defaultIssuer
	}
	locker, err := redislock.New(client, config)
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("use Redis: %w", err)
	}
	return &Service{Locker: locker, close: func() error { return errors.Join(locker.Close(), client.Close()) }}, nil
}

// RedisClient opens a client of the Redis that the URL names, for what a Locker
// does not do: a *goredis.ClusterClient for redis+cluster, else a
// *goredis.Client. The caller closes it.
func (t *Target) RedisClient() (goredis.UniversalClient, error) {
	tls, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	switch t.scheme {
	case "redis+sentinel":
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: t.query.Get("master"), SentinelAddrs: t.hosts,
			SentinelUsername: t.query.Get("sentinel-user"), SentinelPassword: t.query.Get("sentinel-password"),
			Username: t.user, Password: t.password, DB: t.database(), TLSConfig: tls,
			DialTimeout: dialTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout, ContextTimeoutEnabled: true,
		}), nil
	case "redis+cluster":
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: t.hosts, Username: t.user, Password: t.password, TLSConfig: tls,
			DialTimeout: dialTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout, ContextTimeoutEnabled: true,
		}), nil
	default:
		return goredis.NewClient(&goredis.Options{
			Addr: t.hosts[0], Username: t.user, Password: t.password, DB: t.database(), TLSConfig: tls,
			DialTimeout: dialTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout, ContextTimeoutEnabled: true,
		}), nil
	}
}
