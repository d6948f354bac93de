package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// ZooKeeperEnsemble is three ZooKeepers, of which two are a quorum.
type ZooKeeperEnsemble struct{ members []*ZooKeeperServer }

const ensembleSize = 3

// StartZooKeeperEnsemble starts an ensemble for this test alone, removed when the
// test ends. Its members are left without their leader, or leave it, after two
// seconds of silence.
func StartZooKeeperEnsemble(tb testing.TB) *ZooKeeperEnsemble {
	tb.Helper()
	e, stop, err := launchEnsemble()
	need(tb, err)
	tb.Cleanup(stop)
	return e
}

// Members are the servers. The Restart of one returns when it serves, for which
// it needs a quorum.
func (e *ZooKeeperEnsemble) Members() []*ZooKeeperServer { return e.members }

// Addrs are the members' host:port.
func (e *ZooKeeperEnsemble) Addrs() []string {
	var addrs []string
	for _, m := range e.members {
		addrs = append(addrs, m.addr)
	}
	return addrs
}

// Leader returns the member that leads, and the others; it waits for an election
// to end.
func (e *ZooKeeperEnsemble) Leader(tb testing.TB) (leader *ZooKeeperServer, others []*ZooKeeperServer) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ; leader == nil; others = nil {
		if ctx.Err() != nil {
			tb.Fatal("testenv: the ensemble has no leader")
		}
		for _, m := range e.members {
			if m.leads(ctx) {
				leader = m
				break
			}
		}
		if leader == nil {
			<-time.After(20 * time.Millisecond)
		}
	}
	for _, m := range e.members {
		if m != leader {
			others = append(others, m)
		}
	}
	return leader, others
}

// leads asks a server, which may be gone or hang, whether it is the leader.
func (s *ZooKeeperServer) leads(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := fourLetters(ctx, s.addr, "srvr")
	return err == nil && strings.Contains(answer, "Mode: leader")
}

func launchEnsemble() (*ZooKeeperEnsemble, func(), error) {
	java, err := findJava()
	if err != nil {
		return nil, nil, err
	}
	dir, remove, err := folder.New(nil)
	if err != nil {
		return nil, nil, err
	}
	e := &ZooKeeperEnsemble{}
	kill := func() {
		for _, m := range e.members {
			m.proc.end()
		}
	}
	stop := func() { kill(); remove() }
	err = localserver.OnFreePorts(3*ensembleSize, func(ports []int) error {
		kill()
		e.members = nil
		return e.start(java, dir, ports)
	})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return e, stop, nil
}

// start starts all members before it waits for one: none serves without a quorum.
func (e *ZooKeeperEnsemble) start(java, dir string, ports []int) error {
	clients, rest := ports[:ensembleSize], ports[ensembleSize:]
	settings := map[string]string{"initLimit": "20", "syncLimit": "4"}
	for i := range ensembleSize {
		settings[fmt.Sprint("server.", i+1)] = fmt.Sprintf("127.0.0.1:%d:%d", rest[2*i], rest[2*i+1])
	}
	for i, port := range clients {
		m := &ZooKeeperServer{
			addr: localserver.Loopback(port), dir: filepath.Join(dir, strconv.Itoa(i+1)), java: java, main: "quorum.QuorumPeerMain",
		}
		if err := os.MkdirAll(m.data(), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(m.data(), "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(m.config(), []byte(ZooKeeperConfig{Settings: settings}.text(port, m.data())), 0o600); err != nil {
			return err
		}
		if err := m.run(); err != nil {
			return err
		}
		e.members = append(e.members, m)
	}
	for _, m := range e.members {
		if err := m.await(); err != nil {
			return err
		}
	}
	return nil
}
