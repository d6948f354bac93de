package etcdlock_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/lockstest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

const (
	// shortTTL is for tests that lose a lease, longTTL for the others.
	shortTTL = 3 * time.Second
	longTTL  = 30 * time.Second
	patience = 60 * time.Second
)

func TestConformance(t *testing.T) {
	t.Parallel()
	lockstest.Exercise(t, lockstest.Backend{
		Shared: func(tb testing.TB) lockstest.Service { return newService(tb, testenv.Etcd(tb)) },
		Private: func(tb testing.TB) lockstest.Service {
			return newService(tb, testenv.StartEtcd(tb, testenv.EtcdConfig{}))
		},
		Link:   func(tb testing.TB, target string) lockstest.Link { return newLink(tb, target) },
		Counts: isKV,
		TTL:    shortTTL,
	})
}

// isKV tells the requests that make a lock from those that keep the session.
func isKV(path string) bool { return strings.HasPrefix(path, "/etcdserverpb.KV/") }

func newLink(tb testing.TB, target string) *testenv.Link {
	return testenv.NewLink(tb, target, testenv.LinkConfig{Protocol: testenv.HTTP2})
}

// service is an etcd, with a prefix of its own.
type service struct {
	etcd   *testenv.EtcdServer
	prefix string
	client *clientv3.Client
}

func newService(tb testing.TB, etcd *testenv.EtcdServer) *service {
	tb.Helper()
	return &service{etcd: etcd, prefix: "test/" + locks.NewID() + "/", client: connect(tb, etcd, etcd.Endpoints()...)}
}

func connect(tb testing.TB, etcd *testenv.EtcdServer, endpoints ...string) *clientv3.Client {
	tb.Helper()
	config := clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()}
	if etcd.Password() != "" {
		config.Username, config.Password = "root", etcd.Password()
	}
	client, err := clientv3.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return client
}

func (s *service) Addr() string { return s.etcd.Endpoints()[0] }

func (s *service) Open(tb testing.TB, addr string, ttl time.Duration) locks.Locker {
	tb.Helper()
	return s.locker(tb, etcdlock.Config{TTL: ttl}, addr)
}

// locker returns a locker on a client of its own.
func (s *service) locker(tb testing.TB, config etcdlock.Config, endpoints ...string) *etcdlock.Locker {
	tb.Helper()
	config.Prefix = s.prefix
	locker, err := etcdlock.New(connect(tb, s.etcd, endpoints...), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := locker.Close(); err != nil {
			tb.Logf("close: %v", err)
		}
	})
	return locker
}

// queue is what is in the queue of resource, oldest first.
func (s *service) queue(tb testing.TB, resource string) []*mvccpb.KeyValue {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := s.client.Get(ctx, s.prefix+locks.Segment(resource)+"/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		tb.Fatal(err)
	}
	return answer.Kvs
}

func (s *service) keys(tb testing.TB, resource string) []string {
	tb.Helper()
	var keys []string
	for _, kv := range s.queue(tb, resource) {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

func (s *service) Entries(tb testing.TB, resource string) int {
	tb.Helper()
	return len(s.keys(tb, resource))
}

func (s *service) Break(tb testing.TB, resource string, token guard.Token) {
	tb.Helper()
	queue := s.queue(tb, resource)
	i := len(queue) - 1
	if token.Holder != "" {
		i = slices.IndexFunc(queue, func(kv *mvccpb.KeyValue) bool { return string(kv.Value) == token.Holder })
	}
	if i < 0 {
		tb.Fatalf("nothing of %v in %v", token, queue)
	}
	s.delete(tb, string(queue[i].Key))
}

func (s *service) delete(tb testing.TB, key string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if answer, err := s.client.Delete(ctx, key); err != nil || answer.Deleted != 1 {
		tb.Fatalf("delete %q: %v, %v", key, answer, err)
	}
}

func (s *service) Restart(tb testing.TB) {
	tb.Helper()
	for _, m := range s.etcd.Members() {
		m.Kill(tb)
		m.Start(tb)
	}
}

func (s *service) wantKeys(tb testing.TB, resource string, n int) {
	tb.Helper()
	if keys := s.keys(tb, resource); len(keys) != n {
		tb.Errorf("keys of %q: %q, want %d", resource, keys, n)
	}
}

// awaitKeys waits until resource has n keys.
func (s *service) awaitKeys(tb testing.TB, resource string, n int) {
	tb.Helper()
	locktest.Await(tb, func() bool { return len(s.keys(tb, resource)) == n })
}
