package testenv

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Leader returns the member that leads, or nil if none answers within a second
// that knows of one: while they elect it, or too few run.
func (e *EtcdServer) Leader() *EtcdMember {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: e.endpoints, Logger: zap.NewNop()})
	if err != nil {
		return nil
	}
	defer client.Close()
	for _, m := range e.members {
		ask, end := context.WithTimeout(ctx, 300*time.Millisecond)
		status, err := client.Status(ask, m.Endpoint())
		end()
		if err == nil && status.Leader == status.Header.MemberId {
			return m
		}
	}
	return nil
}
