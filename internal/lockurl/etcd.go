package lockurl

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
)

// dialTimeout bounds how long a service may take to accept a connection and a
// password.
const dialTimeout = 5 * time.Second

func openEtcd(ctx context.Context, t *Target, ttl time.Duration) (*Service, error) {
	client, err := t.EtcdClient(ctx)
	if err != nil {
		return nil, err
	}
	locker, err := etcdlock.New(client, etcdlock.Config{TTL: ttl, Prefix: t.path})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &Service{Locker: locker, close: func() error { return errors.Join(locker.Close(), client.Close()) }}, nil
}

// EtcdClient opens a client of the etcd that the URL names, for what a Locker
// does not do. The caller closes it.
func (t *Target) EtcdClient(ctx context.Context) (*clientv3.Client, error) {
	config := clientv3.Config{
		Context: context.WithoutCancel(ctx), DialTimeout: dialTimeout, Logger: zap.NewNop(),
		Username: t.user, Password: t.password,
		// A member that hangs is found out in time for another to be asked.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: dialTimeout,
	}
	scheme := "http://"
	if t.query.Has("tls") {
		scheme = "https://"
	}
	for _, host := range t.hosts {
		config.Endpoints = append(config.Endpoints, scheme+host)
	}
	var err error
	if config.TLS, err = t.tlsConfig(); err != nil {
		return nil, err
	}
	return clientv3.New(config)
}
