package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// EtcdEndpointsEnv names a running etcd to use: host:port, by commas.
const EtcdEndpointsEnv = "FENCE_TEST_ETCD_ENDPOINTS"

// EtcdServer is a running etcd of one or more members.
type EtcdServer struct {
	endpoints []string
	members   []*EtcdMember
	password  string
}

// EtcdConfig says how a private etcd differs from the shared one.
type EtcdConfig struct {
	// Members is 1 or 3. Defaults to 1.
	Members int
	// Auth turns authentication on; user root has the password Password().
	Auth bool
	// AuthTokenTTL is how long an authentication lasts, in seconds. Defaults to
	// etcd's 300.
	AuthTokenTTL int
	// Fsync makes it write as in production.
	Fsync bool
}

// Etcd returns the single node that the tests of this process share. Keep to a
// prefix of your own.
func Etcd(tb testing.TB) *EtcdServer {
	tb.Helper()
	if list := os.Getenv(EtcdEndpointsEnv); list != "" {
		return &EtcdServer{endpoints: strings.Split(list, ",")}
	}
	e, err := share("etcd", func() (*EtcdServer, func(), error) { return launchEtcd(EtcdConfig{}) })
	need(tb, err)
	return e
}

// StartEtcd starts an etcd for this test alone, removed when the test ends.
func StartEtcd(tb testing.TB, c EtcdConfig) *EtcdServer {
	tb.Helper()
	e, stop, err := launchEtcd(c)
	need(tb, err)
	tb.Cleanup(stop)
	return e
}

// Endpoints are the members' host:port, as the etcd client takes them.
func (e *EtcdServer) Endpoints() []string { return e.endpoints }

// Members are the processes; none if the etcd is not ours.
func (e *EtcdServer) Members() []*EtcdMember { return e.members }

// Password is that of user root, "" if authentication is off.
func (e *EtcdServer) Password() string { return e.password }

func launchEtcd(c EtcdConfig) (*EtcdServer, func(), error) {
	path, err := findEtcd()
	if errors.Is(err, errMissing) {
		return dockerEtcd(c, err)
	}
	if err != nil {
		return nil, nil, err
	}
	dir, remove, err := folder.New(nil)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := localserver.StartEtcdCluster(context.Background(), localserver.EtcdConfig{
		Path: path, Dir: dir, Members: c.Members, Args: c.args(),
	})
	if err != nil {
		remove()
		return nil, nil, err
	}
	stop := func() { cluster.Kill(); remove() }
	e := &EtcdServer{endpoints: cluster.Endpoints()}
	for _, m := range cluster.Members {
		e.members = append(e.members, &EtcdMember{m.Endpoint(), etcdProgram{m}})
	}
	return e.secured(c, stop)
}

// secured is e with authentication, if it is to have that, and what stops e.
func (e *EtcdServer) secured(c EtcdConfig, stop func()) (*EtcdServer, func(), error) {
	if c.Auth {
		e.password = freshName("root")
		if err := e.enableAuth(); err != nil {
			stop()
			return nil, nil, err
		}
	}
	return e, stop, nil
}

func findEtcd() (string, error) {
	if err := missingHere(); err != nil {
		return "", err
	}
	own, err := binFolder()
	if err != nil {
		return "", err
	}
	return localserver.FindEtcd(own)
}

func (c EtcdConfig) args() []string {
	var args []string
	if !c.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	if c.AuthTokenTTL != 0 {
		args = append(args, "--auth-token-ttl", strconv.Itoa(c.AuthTokenTTL))
	}
	return args
}

// enableAuth gives user root a password and turns authentication on.
func (e *EtcdServer) enableAuth() error {
	client, err := clientv3.New(clientv3.Config{Endpoints: e.endpoints, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := client.UserAdd(ctx, "root", e.password); err != nil {
		return fmt.Errorf("add etcd user: %w", err)
	}
	if _, err := client.UserGrantRole(ctx, "root", "root"); err != nil {
		return fmt.Errorf("grant etcd role: %w", err)
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("enable etcd authentication: %w", err)
	}
	return nil
}

// EtcdMember is one process of an etcd.
type EtcdMember struct {
	endpoint string
	member   machine
}

// etcdProgram is a localserver.EtcdMember.
type etcdProgram struct{ *localserver.EtcdMember }

// Kill ends the member as a crash does.
func (m etcdProgram) Kill() error { m.EtcdMember.Kill(); return nil }

// Endpoint is the member's host:port for clients.
func (m *EtcdMember) Endpoint() string { return m.endpoint }

// Stop ends the member in an orderly way: a leader hands over first.
func (m *EtcdMember) Stop(tb testing.TB) { tb.Helper(); m.member.Stop() }

// Kill ends the member as a crash does.
func (m *EtcdMember) Kill(tb testing.TB) { tb.Helper(); m.must(tb, m.member.Kill()) }

// Freeze stops the member where it is; its connections stay open.
func (m *EtcdMember) Freeze(tb testing.TB) { tb.Helper(); m.must(tb, m.member.Freeze()) }

// Thaw lets a frozen member run on.
func (m *EtcdMember) Thaw(tb testing.TB) { tb.Helper(); m.must(tb, m.member.Thaw()) }

// Start starts a member that was stopped or killed, on its data and its port.
// It returns when the member is healthy, or, if too few members run for a
// quorum, when it listens: until there is one, etcd does not answer.
func (m *EtcdMember) Start(tb testing.TB) {
	tb.Helper()
	m.must(tb, m.member.Start(context.Background()))
}

func (m *EtcdMember) must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("testenv: etcd member at %s: %v", m.Endpoint(), err)
	}
}
