package testenv

import (
	"os"
	"syscall"
	"testing"
)

// Endpoint is the member's host:port for clients.
func (m *EtcdMember) Endpoint() string { return m.addr }

// Stop ends the member in an orderly way: a leader hands over first.
func (m *EtcdMember) Stop(tb testing.TB) { tb.Helper(); m.proc.end(syscall.SIGTERM) }

// Kill ends the member as a crash does.
func (m *EtcdMember) Kill(tb testing.TB) { tb.Helper(); m.proc.end(syscall.SIGKILL) }

// Freeze stops the member where it is; its connections stay open.
func (m *EtcdMember) Freeze(tb testing.TB) { tb.Helper(); m.signal(tb, syscall.SIGSTOP) }

// Thaw lets a frozen member run on.
func (m *EtcdMember) Thaw(tb testing.TB) { tb.Helper(); m.signal(tb, syscall.SIGCONT) }

// Start starts a member that was stopped or killed, on its data and its port.
// It returns when the member answers, be there a quorum or not.
func (m *EtcdMember) Start(tb testing.TB) {
	tb.Helper()
	if err := m.start("/health?serializable=true"); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
}

func (m *EtcdMember) signal(tb testing.TB, s os.Signal) {
	tb.Helper()
	if err := m.proc.Signal(s); err != nil {
		tb.Fatalf("testenv: signal etcd member %s: %v", m.name, err)
	}
}
