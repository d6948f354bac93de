package etcdlock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

// traffic counts what clients send: requests, and messages on streams.
type traffic struct{ sent atomic.Int64 }

func (c *traffic) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.sent.Add(1)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c *traffic) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	return countedStream{s, c}, err
}

type countedStream struct {
	grpc.ClientStream
	traffic *traffic
}

func (s countedStream) SendMsg(m any) error {
	s.traffic.sent.Add(1)
	return s.ClientStream.SendMsg(m)
}

// countedLocker returns a locker on a client of its own that is counted.
func (s *service) countedLocker(tb testing.TB, c *traffic, ttl time.Duration, addr string) *etcdlock.Locker {
	tb.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream)},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: ttl, Prefix: s.prefix})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { locker.Close() })
	return locker
}

// TestManyLeases: what a session costs at rest does not depend on how many locks
// are on it, and yet each of them is told when its key is deleted, also over a
// connection that broke. It runs alone, since it counts goroutines.
func TestManyLeases(t *testing.T) {
	const many, ttl = 300, 2 * shortTTL
	s := newService(t, testenv.Etcd(t))
	link := newLink(t, s.Addr())
	var count traffic
	locker := s.countedLocker(t, &count, ttl, link.Addr())
	leases := []locks.Lease{locktest.MustAcquire(t, locker.Acquire, "0")}
	awaitWatch(t, link, 0)
	goroutines := runtime.NumGoroutine()
	for i := range many - 1 {
		leases = append(leases, locktest.MustAcquire(t, locker.Acquire, fmt.Sprint(i+1)))
	}
	lose := func(i int) {
		t.Helper()
		s.Break(t, fmt.Sprint(i), leases[i].Token())
		lostSoon(t, leases[i])
	}
	<-time.After(time.Second) // the youngest are watched
	if now := runtime.NumGoroutine(); now > goroutines+10 {
		t.Errorf("%d goroutines with %d locks, %d with one", now, many, goroutines)
	}
	before := count.sent.Load()
	<-time.After(ttl)
	if sent := count.sent.Load() - before; sent > 10 {
		t.Errorf("%d messages in a TTL", sent)
	}
	lose(many - 1)

	streams := watches(link)
	link.Refuse(true)
	s.Break(t, "1", leases[1].Token())
	link.Refuse(false)
	awaitWatch(t, link, streams)
	lostSoon(t, leases[1])
	lose(2)
	lose(many - 2)
	for i, lease := range leases {
		if lost := i == 1 || i == 2 || i >= many-2; lost != (lease.Err() != nil) {
			t.Errorf("lock %d: %v", i, lease.Err())
		}
	}
	if sent := count.sent.Load() - before; sent > many*5/4 {
		t.Errorf("%d messages for a connection that broke with %d locks", sent, many)
	}
}
