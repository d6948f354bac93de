package redislock_test

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/locks/redislock"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	for _, test := range []struct {
		config redislock.Config
		want   string // in the error; "" for none
	}{
		{redislock.Config{Issuer: "main"}, ""},
		{redislock.Config{Issuer: "main", TTL: 500 * time.Millisecond}, ""},
		{redislock.Config{}, "Issuer"},
		{redislock.Config{Issuer: "a:b"}, "Issuer"},
		{redislock.Config{Issuer: "main", TTL: time.Millisecond}, "TTL"},
		{redislock.Config{Issuer: "main", TTL: -time.Second}, "TTL"},
		{redislock.Config{Issuer: "main", Prefix: "{a}"}, "braces"},
		{redislock.Config{Issuer: "main", FallbackPoll: time.Millisecond}, "FallbackPoll"},
		{redislock.Config{Issuer: "main", TTL: time.Second, FallbackPoll: time.Second}, "FallbackPoll"},
		{redislock.Config{Issuer: "main", Floor: -1}, "floor"},
		{redislock.Config{Issuer: "main", Replicas: -1}, "Replicas"},
	} {
		locker, err := redislock.New(client, test.config)
		if locker != nil {
			locker.Close()
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("New with %+v: %v", test.config, err)
		}
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		client goredis.UniversalClient
		want   string
	}{
		"single":               {goredis.NewClient(&goredis.Options{}), ""},
		"cluster":              {goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), ""},
		"ring":                 {goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}), "Ring"},
		"none":                 {nil, "<nil>"},
		"no timeout":           {goredis.NewClient(&goredis.Options{ReadTimeout: -1}), "ReadTimeout"},
		"cluster, no timeout":  {goredis.NewClusterClient(&goredis.ClusterOptions{ReadTimeout: -1}), "ReadTimeout"},
		"no deadline at all":   {goredis.NewClient(&goredis.Options{ReadTimeout: -2}), "ReadTimeout"},
		"sentinel, no timeout": {goredis.NewFailoverClient(&goredis.FailoverOptions{ReadTimeout: -1}), "ReadTimeout"},
	} {
		locker, err := redislock.New(test.client, redislock.Config{Issuer: "main"})
		if locker != nil {
			locker.Close()
		}
		if test.client != nil {
			test.client.Close()
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: New: %v", name, err)
		}
	}
}
