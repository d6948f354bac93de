package lockurl

import (
	"errors"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Denied reports whether err means that a service answered, and does not let
// this user in or does not let it lock.
func Denied(err error) bool {
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return deniedCode(etcd.Code()) || errors.Is(etcd, rpctypes.ErrAuthFailed)
	}
	if s, ok := status.FromError(err); ok && deniedCode(s.Code()) {
		return true
	}
	for _, prefix := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "AUTH ", "invalid password"} {
		if goredis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrNoAuth)
}

func deniedCode(c codes.Code) bool { return c == codes.PermissionDenied || c == codes.Unauthenticated }
