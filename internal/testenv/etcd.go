package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
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

func findEtcd() (string, error) {
	own, err := binPath("etcd")
	if err != nil {
		return "", err
	}
	if isExecutable(own) {
		return own, nil
	}
	if path, err := exec.LookPath("etcd"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("etcd: %w", errMissing)
}

func launchEtcd(c EtcdConfig) (*EtcdServer, func(), error) {
	bin, err := findEtcd()
	if errors.Is(err, errMissing) {
		return dockerEtcd(c, err)
	}
	if err != nil {
		return nil, nil, err
	}
	for attempt := 1; ; attempt++ {
		e, stop, err := tryEtcd(bin, c)
		if err == nil || !portTaken(err) || attempt == startAttempts {
			return e, stop, err
		}
	}
}

// tryEtcd starts all members on ports that were free a moment ago.
func tryEtcd(bin string, c EtcdConfig) (*EtcdServer, func(), error) {
	dir, remove, err := scratch(nil)
	if err != nil {
		return nil, nil, err
	}
	e := &EtcdServer{}
	stop := func() {
		for _, m := range e.members {
			m.proc.end(syscall.SIGKILL)
		}
		remove()
	}
	if e.members, err = newMembers(bin, dir, c); err == nil {
		var g errgroup.Group
		for _, m := range e.members {
			m.server = e
			e.endpoints = append(e.endpoints, m.addr)
			g.Go(func() error { return m.start(m.healthy) })
		}
		err = g.Wait()
	}
	if err == nil && c.Auth {
		e.password = freshName("root")
		err = e.enableAuth()
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return e, stop, nil
}

func newMembers(bin, dir string, c EtcdConfig) ([]*EtcdMember, error) {
	var members []*EtcdMember
	var cluster []string
	for i := range max(1, c.Members) {
		client, err := freePort()
		if err != nil {
			return nil, err
		}
		peer, err := freePort()
		if err != nil {
			return nil, err
		}
		m := &EtcdMember{name: "m" + strconv.Itoa(i), bin: bin, dir: filepath.Join(dir, "m"+strconv.Itoa(i)), addr: loopback(client)}
		clientURL, peerURL := "http://"+loopback(client), "http://"+loopback(peer)
		m.args = []string{
			"--name", m.name, "--data-dir", filepath.Join(m.dir, "data"),
			"--listen-client-urls", clientURL, "--advertise-client-urls", clientURL,
			"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
			"--log-level", "warn", "--logger", "zap",
		}
		if !c.Fsync {
			m.args = append(m.args, "--unsafe-no-fsync")
		}
		if c.AuthTokenTTL != 0 {
			m.args = append(m.args, "--auth-token-ttl", strconv.Itoa(c.AuthTokenTTL))
		}
		members = append(members, m)
		cluster = append(cluster, m.name+"="+peerURL)
	}
	for _, m := range members {
		m.args = append(m.args, "--initial-cluster", strings.Join(cluster, ","))
	}
	return members, nil
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
