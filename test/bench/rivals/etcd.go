package rivals

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// etcdBench is the etcd that all use.
type etcdBench struct {
	endpoints []string
	requests  atomic.Int64
}

func etcdFamily() *family {
	e := &etcdBench{}
	return &family{
		name: "etcd",
		start: func(b *bed.Bed) string {
			e.endpoints = testenv.StartEtcd(b, testenv.EtcdConfig{}).Endpoints()
			status, err := e.client(b).Status(b.Context(), e.endpoints[0])
			b.Must(err)
			return "etcd " + status.Version + " without fsync"
		},
		requests: e.requests.Load,
		rivals: []rival{
			{"etcdlock", e.joinOurs, e.holdOurs},
			{"concurrency.Mutex", e.joinMutex, e.holdMutex},
		},
	}
}

func (e *etcdBench) client(b *bed.Bed) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: e.endpoints, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(e.unary), grpc.WithChainStreamInterceptor(e.stream)},
	})
	b.Must(err)
	b.Cleanup(func() { client.Close() })
	return client
}

func (e *etcdBench) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	e.requests.Add(1)
	return invoke(ctx, method, req, reply, cc, opts...)
}

// stream counts the messages to watch, and those that keep a lease alive.
func (e *etcdBench) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	return countedStream{s, &e.requests}, err
}

type countedStream struct {
	grpc.ClientStream

	requests *atomic.Int64
}

func (s countedStream) SendMsg(m any) error {
	s.requests.Add(1)
	return s.ClientStream.SendMsg(m)
}

func (e *etcdBench) locker(b *bed.Bed) *etcdlock.Locker {
	locker, err := etcdlock.New(e.client(b), etcdlock.Config{TTL: ttl})
	b.Must(err)
	b.Cleanup(func() { locker.Close() })
	return locker
}

func (e *etcdBench) joinOurs(b *bed.Bed, resource string) contender {
	return joinLocker(e.locker(b), resource)
}

func (e *etcdBench) holdOurs(b *bed.Bed) func(ctx context.Context, n int) error {
	return holdLocker(e.locker(b))
}

func (e *etcdBench) session(b *bed.Bed) *concurrency.Session {
	session, err := concurrency.NewSession(e.client(b), concurrency.WithTTL(int(ttl/time.Second)))
	b.Must(err)
	b.Cleanup(func() { session.Close() })
	return session
}

func (e *etcdBench) joinMutex(b *bed.Bed, resource string) contender {
	mutex := concurrency.NewMutex(e.session(b), "mutex/"+resource)
	return contender{mutex.Lock, mutex.Unlock}
}

func (e *etcdBench) holdMutex(b *bed.Bed) func(ctx context.Context, n int) error {
	session := e.session(b)
	return func(ctx context.Context, n int) error {
		return concurrency.NewMutex(session, fmt.Sprintf("mutex/held-%d", n)).Lock(ctx)
	}
}
