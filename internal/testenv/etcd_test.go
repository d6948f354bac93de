package testenv_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func etcdClient(t *testing.T, c clientv3.Config) *clientv3.Client {
	t.Helper()
	c.DialTimeout = 10 * time.Second
	c.Logger = zap.NewNop()
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// put writes until it is accepted: while a leader is elected it is not.
func put(t *testing.T, client *clientv3.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, err := client.Put(ctx, t.Name(), "v")
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t)
	if err := put(t, etcdClient(t, clientv3.Config{Endpoints: e.Endpoints()})); err != nil {
		t.Fatal(err)
	}
}

func TestEtcdAuth(t *testing.T) {
	t.Parallel()
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true, AuthTokenTTL: 2})
	if _, err := etcdClient(t, clientv3.Config{Endpoints: e.Endpoints()}).Put(t.Context(), "k", "v"); err == nil {
		t.Error("a client without a password may write")
	}
	root := etcdClient(t, clientv3.Config{Endpoints: e.Endpoints(), Username: "root", Password: e.Password()})
	if err := put(t, root); err != nil {
		t.Error(err)
	}
}

// TestEtcdLeader: another member leads when the leader is gone.
func TestEtcdLeader(t *testing.T) {
	t.Parallel()
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Members: 3})
	first := e.Leader()
	if first == nil {
		t.Fatal("a healthy etcd has no leader")
	}
	first.Freeze(t)
	if err := put(t, etcdClient(t, clientv3.Config{Endpoints: e.Endpoints()})); err != nil {
		t.Fatal(err)
	}
	if next := e.Leader(); next == nil || next == first {
		t.Errorf("leader is %v, and was %v until it was frozen", next, first)
	}
	first.Thaw(t)
}

func TestEtcdMembers(t *testing.T) {
	t.Parallel()
	e := testenv.StartEtcd(t, testenv.EtcdConfig{Members: 3})
	client := etcdClient(t, clientv3.Config{Endpoints: e.Endpoints()})
	members := e.Members()
	members[0].Kill(t)
	if err := put(t, client); err != nil {
		t.Fatalf("two of three: %v", err)
	}
	members[1].Freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := client.Put(ctx, "k", "v"); err == nil {
		t.Error("one of three accepts a write")
	}
	members[1].Thaw(t)
	members[0].Start(t)
	members[2].Stop(t)
	if err := put(t, client); err != nil {
		t.Fatalf("two of three again: %v", err)
	}
	members[1].Stop(t)
	members[0].Kill(t)
	members[0].Start(t) // answers without a quorum
}
