package lockurl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// open opens a service of a test, and closes it with the test.
func open(t *testing.T, text string) *Service {
	t.Helper()
	logging.Disable()
	target, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := target.Open(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Each kind of URL leads to a service that locks, and two that say the same to
// the same one.
func TestOpen(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(t *testing.T) string{
		"etcd": func(t *testing.T) string {
			return fmt.Sprintf("etcd://%s/test/%s", testenv.Etcd(t).Endpoints()[0], locks.NewID())
		},
		"etcd with a password": func(t *testing.T) string {
			e := testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true})
			return fmt.Sprintf("etcd://root:%s@%s", url.QueryEscape(e.Password()), e.Endpoints()[0])
		},
		"redis": func(t *testing.T) string {
			return fmt.Sprintf("redis://%s/3?prefix=%s:&issuer=i", testenv.Redis(t).Addr(), locks.NewID())
		},
		"redis with a password": func(t *testing.T) string {
			s := testenv.StartRedis(t, testenv.RedisConfig{})
			client := s.Client(t)
			if err := client.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">s3:cr@t", "~*", "&*", "+@all").Err(); err != nil {
				t.Fatal(err)
			}
			return "redis://app:s3%3Acr%40t@" + s.Addr()
		},
		"redis+sentinel": func(t *testing.T) string {
			s := testenv.StartRedisSentinel(t, testenv.RedisConfig{})
			return fmt.Sprintf("redis+sentinel://%s?master=%s", s.Addr(), s.Name())
		},
		"redis+cluster": func(t *testing.T) string {
			return "redis+cluster://" + testenv.StartRedisCluster(t, 1)[0].Addr()
		},
		"zk": func(t *testing.T) string {
			return fmt.Sprintf("zk://u:p@%s/test/%s", testenv.ZooKeeper(t).Addr(), locks.NewID())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := text(t)
			a, b := open(t, at), open(t, at)
			lease, err := a.Acquire(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.TryAcquire(t.Context(), "orders"); !errors.Is(err, locks.ErrHeld) {
				t.Errorf("TryAcquire of a lock that is held: %v", err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true})
	target, err := Parse("etcd://root:wrong@" + e.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Open(t.Context(), 10*time.Second); !Denied(err) {
		t.Errorf("etcd with a wrong password: %v", err)
	}
	s := testenv.StartRedis(t, testenv.RedisConfig{})
	if err := s.Client(t).ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"", ":wrong@", "nobody:wrong@"} {
		if _, err := open(t, "redis://"+user+s.Addr()).TryAcquire(t.Context(), "orders"); !Denied(err) {
			t.Errorf("Redis as %q: %v", user, err)
		}
	}
	for _, err := range []error{nil, context.Canceled, goredis.ErrClosed, locks.ErrLost} {
		if Denied(err) {
			t.Errorf("Denied(%v)", err)
		}
	}
}
