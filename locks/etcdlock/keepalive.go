package etcdlock

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// renewer sends the renewals of one lease over one stream, one at a time. The
// client's own KeepAlive does not tell when the renewal was sent that an answer
// belongs to, and the local deadline counts from there.
type renewer struct {
	remote pb.LeaseClient
	id     clientv3.LeaseID
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc // of stream
}

// renew reports whether etcd knows the lease, after having renewed it. It gives
// up after limit; the next renewal then opens a stream of its own, which the
// client sends to another endpoint if it can.
func (r *renewer) renew(ctx context.Context, limit time.Duration) (known bool, err error) {
	var stop func() bool
	if r.stream == nil {
		ctx, r.cancel = context.WithCancel(clientv3.WithRequireLeader(ctx))
		stop = stopAfter(limit, r.cancel)
		r.stream, err = r.remote.LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	} else {
		stop = stopAfter(limit, r.cancel)
	}
	defer func() {
		if !stop() || err != nil {
			r.close()
		}
	}()
	if err != nil {
		return false, err
	}
	if err := r.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(r.id)}); err != nil {
		return false, err
	}
	answer, err := r.stream.Recv()
	if err != nil {
		return false, err
	}
	return answer.TTL > 0, nil
}

func stopAfter(limit time.Duration, cancel func()) func() bool {
	return time.AfterFunc(limit, cancel).Stop
}

func (r *renewer) close() {
	if r.cancel != nil {
		r.cancel()
	}
	r.stream, r.cancel = nil, nil
}
