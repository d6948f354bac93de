package etcdlock_test

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.Etcd(t), testenv.Etcd(t).Endpoints()...)
	for _, test := range []struct {
		config etcdlock.Config
		want   string
	}{
		{etcdlock.Config{}, ""},
		{etcdlock.Config{TTL: time.Second, Prefix: "p", IssuerKey: "p/issuer"}, ""},
		{etcdlock.Config{TTL: time.Second - 1}, "TTL"},
		{etcdlock.Config{TTL: -1}, "TTL"},
		{etcdlock.Config{Prefix: "p", IssuerKey: "p/orders/x"}, "IssuerKey"},
	} {
		locker, err := etcdlock.New(client, test.config)
		if err == nil {
			err = locker.Close()
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("New(%+v): %v, want an error about %q", test.config, err, test.want)
		}
	}
	for _, client := range []*clientv3.Client{nil, clientv3.NewCtxClient(t.Context())} {
		if _, err := etcdlock.New(client, etcdlock.Config{}); err == nil {
			t.Error("New without a connection succeeded")
		}
	}
	client.Watcher = namespace.NewWatcher(client.Watcher, "ns/")
	if _, err := etcdlock.New(client, etcdlock.Config{}); err == nil || !strings.Contains(err.Error(), "Prefix") {
		t.Errorf("New with the watcher of a namespace: %v", err)
	}
}

// TestExample runs the package's example: on its own, an example cannot start
// an etcd.
func TestExample(t *testing.T) {
	t.Parallel()
	etcd := testenv.Etcd(t)
	if err := shipOrders(locktest.Context(t), etcd.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	answer, err := connect(t, etcd, etcd.Endpoints()...).Get(locktest.Context(t), "fence/locks/.issuer")
	if err != nil || len(answer.Kvs) != 1 {
		t.Errorf("issuer after the example: %v, %v", answer, err)
	}
}
