package etcdlock

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

const (
	// openTimeout is how long an acquisition without a session tries to get one.
	openTimeout = 5 * time.Second
	maxAttempt  = time.Minute
)

// retry sends a request until it is answered or ctx ends, which must be safe
// to repeat: all requests of this package are. An attempt that is not answered
// is given up after a while, since the member it went to may hang while others
// would answer; then attempts get longer, in case all of them are slow.
func (l *Locker) retry(ctx context.Context, request func(ctx context.Context) error) error {
	ctx = clientv3.WithRequireLeader(ctx)
	limit := min(max(l.config.TTL/10, 500*time.Millisecond), 5*time.Second)
	var pauses wait.Pauses
	for {
		attempt, cancel := context.WithTimeout(ctx, limit)
		err := request(attempt)
		cancel()
		if err == nil || final(err) || ctx.Err() != nil || l.client.Ctx().Err() != nil {
			return err
		}
		if !pauses.Pause(ctx) {
			return err
		}
		limit = min(2*limit, maxAttempt)
	}
}

// final reports whether err is etcd's own answer, or one of this package: to
// repeat the request would not change it, and the request that got it was not
// applied.
func final(err error) bool {
	var etcd rpctypes.EtcdError
	var code codes.Code
	switch s, ok := status.FromError(err); {
	case errors.As(err, &etcd):
		code = etcd.Code()
	case ok:
		code = s.Code()
	default:
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	case codes.ResourceExhausted:
		return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace)
	default:
		return false
	}
}

func isLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}
