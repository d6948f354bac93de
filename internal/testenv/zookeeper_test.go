package testenv_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

func zkConnect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the client has ended
		}
	})
	return conn
}

// exists asks until it is answered.
func exists(t *testing.T, conn *zk.Conn, path string) bool {
	t.Helper()
	// Without a pause it would take from the client what that needs to connect.
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-pause.C {
		if found, _, err := conn.Exists(path); err == nil {
			return found
		}
	}
	t.Fatalf("no answer about %s", path)
	return false
}

func TestZooKeeperRestart(t *testing.T) {
	t.Parallel()
	s := testenv.StartZooKeeper(t, testenv.ZooKeeperConfig{})
	conn := zkConnect(t, s.Addr())
	if _, err := conn.Create("/kept", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if !exists(t, conn, "/kept") {
		t.Error("a restart forgot the session's node")
	}
	s.Forget(t)
	s.Restart(t)
	if exists(t, zkConnect(t, s.Addr()), "/kept") {
		t.Error("the node is still there")
	}
}

func TestLinkReadsZooKeeper(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	link := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{Protocol: testenv.ZooKeeperWire})
	conn := zkConnect(t, link.Addr())
	acl := zk.WorldACL(zk.PermAll)
	node, err := conn.Create("/link-", nil, zk.FlagSequence, acl)
	if err != nil {
		t.Fatal(err)
	}
	link.DropReplyTo(func(path string) bool { return path == "multi" }, 1)
	_, err = conn.Multi(&zk.CreateRequest{Path: node + "/a", Acl: acl}, &zk.SetDataRequest{Path: node, Version: 0})
	if !errors.Is(err, zk.ErrConnectionClosed) {
		t.Fatalf("multi got its reply: %v", err)
	}
	if !exists(t, conn, node+"/a") {
		t.Error("multi did not reach the server")
	}
	want := []string{"connect", "create", "multi", "connect"}
	if got := link.Paths(); len(got) < 5 || !slices.Equal(got[:4], want) || got[4] != "exists" {
		t.Errorf("requests %q, want %q and then exists", got, want)
	}
}

// TestZooKeeperEnsemble: another member leads when the leader is gone.
func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	e := testenv.StartZooKeeperEnsemble(t)
	leader, others := e.Leader(t)
	if len(e.Addrs()) != 3 || len(others) != 2 {
		t.Fatalf("members %v", e.Addrs())
	}
	leader.Kill(t)
	next, _ := e.Leader(t)
	if next == leader {
		t.Error("a dead leader")
	}
	leader.Restart(t)
}
