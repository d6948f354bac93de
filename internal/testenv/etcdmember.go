package testenv

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// EtcdMember is one process of an etcd.
type EtcdMember struct {
	server *EtcdServer
	name   string
	bin    string
	dir    string // data/ and log
	args   []string
	addr   string
	proc   *process
	frozen atomic.Bool
}

// Endpoint is the member's host:port for clients.
func (m *EtcdMember) Endpoint() string { return m.addr }

// Stop ends the member in an orderly way: a leader hands over first.
func (m *EtcdMember) Stop(tb testing.TB) { tb.Helper(); m.proc.end(syscall.SIGTERM) }

// Kill ends the member as a crash does.
func (m *EtcdMember) Kill(tb testing.TB) { tb.Helper(); m.proc.end(syscall.SIGKILL) }

// Freeze stops the member where it is; its connections stay open.
func (m *EtcdMember) Freeze(tb testing.TB) {
	tb.Helper()
	if err := m.proc.Freeze(); err != nil {
		tb.Fatalf("testenv: etcd member %s: %v", m.name, err)
	}
	m.frozen.Store(true)
}

// Thaw lets a frozen member run on.
func (m *EtcdMember) Thaw(tb testing.TB) {
	tb.Helper()
	if err := m.proc.Thaw(); err != nil {
		tb.Fatalf("testenv: etcd member %s: %v", m.name, err)
	}
	m.frozen.Store(false)
}

// Start starts a member that was stopped or killed, on its data and its port.
// It returns when the member is healthy, or, if too few members run for a
// quorum, when it listens: until there is one, etcd does not answer.
func (m *EtcdMember) Start(tb testing.TB) {
	tb.Helper()
	ready := m.listens
	if m.server.running()+1 > len(m.server.members)/2 {
		ready = m.healthy
	}
	if err := m.start(ready); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
}

// running counts the members that can vote.
func (e *EtcdServer) running() int {
	n := 0
	for _, m := range e.members {
		select {
		case <-m.proc.Done():
		default:
			if !m.frozen.Load() {
				n++
			}
		}
	}
	return n
}

// start starts the member's process and polls until it is ready.
func (m *EtcdMember) start(ready func(context.Context) error) error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	proc, err := command{path: m.bin, args: m.args, logPath: filepath.Join(m.dir, "log"), onDeath: syscall.SIGKILL}.start()
	if err != nil {
		return err
	}
	m.proc = proc
	m.frozen.Store(false)
	err = proc.until(time.Minute, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	return nil
}

func (m *EtcdMember) listens(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (m *EtcdMember) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.addr+"/health", nil)
	if err != nil {
		return err
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s", res.Status)
	}
	return nil
}
