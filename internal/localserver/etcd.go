package localserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// StartEtcd starts a single etcd with its data in dir. It ends when ctx has
// ended before it is ready.
func StartEtcd(ctx context.Context, path, dir string) (*Server, error) {
	e, err := StartEtcdCluster(ctx, EtcdConfig{Path: path, Dir: dir})
	if err != nil {
		return nil, err
	}
	m := e.Members[0]
	return &Server{Address: m.Endpoint(), Port: m.port, stop: m.Stop}, nil
}

// EtcdConfig says what etcd to start.
type EtcdConfig struct {
	// Path is that of the program.
	Path string
	// Dir gets a folder for each member, with its data and its log.
	Dir string
	// Members is how many there are. Defaults to 1.
	Members int
	// Args are further arguments of all members.
	Args []string
}

// Etcd is an etcd whose members run here.
type Etcd struct{ Members []*EtcdMember }

// StartEtcdCluster starts an etcd and returns when every member answers.
func StartEtcdCluster(ctx context.Context, c EtcdConfig) (*Etcd, error) {
	var e *Etcd
	attempt := 0
	err := OnFreePorts(2*max(1, c.Members), func(ports []int) error {
		// A data folder remembers its peer address, so each attempt has its own.
		attempt++
		e = newEtcd(c, strconv.Itoa(attempt), ports)
		var g errgroup.Group
		for _, m := range e.Members {
			g.Go(func() error { return m.start(ctx, m.healthy) })
		}
		err := g.Wait()
		if err != nil {
			e.Kill()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// newEtcd has two ports for each member, for clients and for its peers.
func newEtcd(c EtcdConfig, attempt string, ports []int) *Etcd {
	e := &Etcd{}
	var cluster []string
	for both := range slices.Chunk(ports, 2) {
		name := fmt.Sprintf("m%d", len(e.Members))
		client, peer := "http://"+Loopback(both[0]), "http://"+Loopback(both[1])
		m := &EtcdMember{etcd: e, path: c.Path, dir: filepath.Join(c.Dir, name+"-"+attempt), port: both[0]}
		m.args = append([]string{
			"--name", name, "--data-dir", filepath.Join(m.dir, "data"),
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--log-level", "warn",
		}, c.Args...)
		e.Members = append(e.Members, m)
		cluster = append(cluster, name+"="+peer)
	}
	for _, m := range e.Members {
		m.args = append(m.args, "--initial-cluster", strings.Join(cluster, ","))
	}
	return e
}

// Endpoints are the members' host:port, as the etcd client takes them.
func (e *Etcd) Endpoints() []string {
	var all []string
	for _, m := range e.Members {
		all = append(all, m.Endpoint())
	}
	return all
}

// Kill ends all members as a crash does.
func (e *Etcd) Kill() {
	for _, m := range e.Members {
		m.Kill()
	}
}

// EtcdMember is one process of an etcd.
type EtcdMember struct {
	etcd    *Etcd
	path    string
	dir     string
	args    []string
	port    int
	process *Process
	frozen  atomic.Bool
}

// Endpoint is the member's host:port for clients.
func (m *EtcdMember) Endpoint() string { return Loopback(m.port) }

// Stop ends the member in an orderly way: a leader hands over first.
func (m *EtcdMember) Stop() { m.process.End(grace, syscall.SIGTERM) }

// Kill ends the member as a crash does.
func (m *EtcdMember) Kill() { m.process.End(0) }

// Freeze stops the member where it is; its connections stay open.
func (m *EtcdMember) Freeze() error {
	err := m.process.Freeze()
	if err == nil {
		m.frozen.Store(true)
	}
	return err
}

// Thaw lets a frozen member run on.
func (m *EtcdMember) Thaw() error {
	err := m.process.Thaw()
	if err == nil {
		m.frozen.Store(false)
	}
	return err
}

// Start starts a member that has ended, on its data and its port. It returns
// when the member is healthy, or, if too few members run for a quorum, when it
// listens: until there is one, etcd does not answer.
func (m *EtcdMember) Start(ctx context.Context) error {
	running := 1
	for _, other := range m.etcd.Members {
		if other != m && other.votes() {
			running++
		}
	}
	if running > len(m.etcd.Members)/2 {
		return m.start(ctx, m.healthy)
	}
	return m.start(ctx, m.listens)
}

// votes says whether the member runs.
func (m *EtcdMember) votes() bool {
	select {
	case <-m.process.Done():
		return false
	default:
		return !m.frozen.Load()
	}
}

func (m *EtcdMember) start(ctx context.Context, ready func(context.Context) error) error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for etcd: %w", err)
	}
	process, err := StartLogged(exec.Command(m.path, m.args...), filepath.Join(m.dir, "log"), syscall.SIGKILL)
	if err != nil {
		return err
	}
	m.process = process
	m.frozen.Store(false)
	if err := process.AwaitReady(ctx, startLimit, ready); err != nil {
		m.Kill()
		return fmt.Errorf("start etcd: %w", err)
	}
	return nil
}

func (m *EtcdMember) listens(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.Endpoint())
	if err != nil {
		return err
	}
	return conn.Close()
}

func (m *EtcdMember) healthy(ctx context.Context) error { return EtcdHealthy(ctx, m.port) }

// EtcdHealthy says whether the etcd on a loopback port answers reads, which
// takes a leader and a quorum.
func EtcdHealthy(ctx context.Context, port int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+Loopback(port)+"/health", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s", res.Status)
	}
	return nil
}
