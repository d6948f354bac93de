package execute

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// stubborn is deaf to what can be ignored, and so are those that it starts, one
// of them as a daemon.
const stubborn = `trap "" TERM INT HUP; (setsid sh -c 'while :; do sleep 0.02; done' &); ` + ready

// beforeLease waits until a is over but for its own process, and fails if its
// key is gone from etcd first: then somebody else could have the lock.
func (x *theatre) beforeLease(a *act) {
	x.t.Helper()
	client := x.client()
	clitest.Until(x.t, "the command is over", func() bool {
		held := len(x.keys(client).Kvs) > 0
		over := !isAlive(a.pid)
		if !held && !over {
			x.t.Fatal("the command outlives the lease")
		}
		return over
	})
}

func testExecRevoked(_ *testing.T, x *theatre) {
	// It ends at once, not when the lease would have been over.
	const ttl = time.Minute
	began := time.Now()
	orderly := x.exec("--ttl", ttl.String(), "--", "sh", "-c", `trap "echo bye; exit 0" TERM; `+ready).up()
	x.revoke()
	orderly.says("bye")
	if took := time.Since(began); took > ttl/2 {
		x.t.Errorf("told to end after %v", took)
	}
	orderly.ends(cli.ExitLost, `the lease of "orders"`, "is lost, so sh ended with exit code 0", "lease is lost")

	deaf := x.exec("--ttl", "10s", "--", "sh", "-c", stubborn).up()
	x.revoke()
	deaf.ends(cli.ExitLost, "was ended by signal 9")
}

func testExecFrozen(t *testing.T, x *theatre) {
	link := testenv.NewLink(t, x.etcd.Endpoints()[0], testenv.LinkConfig{Protocol: testenv.Bytes})
	a := x.start("--lock", x.lock(link.Addr()), "--resource", "orders", "--ttl", shortTTL, "--", "sh", "-c", stubborn).up()
	link.Freeze()
	x.beforeLease(a)
	a.ends(cli.ExitLost, "was ended by signal 9", "not renewed")
}

// A stopped exec renews nothing, and the warden runs on.
func testExecStopped(t *testing.T, x *theatre) {
	a := x.exec("--ttl", shortTTL, "--", "sh", "-c", stubborn).up()
	a.signal(syscall.SIGSTOP)
	x.beforeLease(a)
	if s := state(a.cmd.Process.Pid); s != "T" {
		t.Errorf("exec is in state %q", s)
	}
	client := x.client()
	clitest.Until(t, "the lease is over", func() bool { return len(x.keys(client).Kvs) == 0 })
	a.signal(syscall.SIGCONT)
	a.ends(cli.ExitLost, "was ended by signal 9")

	// With the warden stopped too, the command is ended as soon as both go on.
	b := x.exec("--ttl", shortTTL, "--", "sh", "-c", stubborn).up()
	warden := parent(t, b.pid)
	for _, pid := range []int{b.cmd.Process.Pid, warden} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Until(t, "the lease is over", func() bool { return len(x.keys(client).Kvs) == 0 })
	if !isAlive(b.pid) {
		t.Error("nobody was there to end the command")
	}
	for _, pid := range []int{warden, b.cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	b.ends(cli.ExitLost, "was ended by signal 9")
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

func testExecKilled(t *testing.T, x *theatre) {
	a := x.exec("--ttl", shortTTL, "--", "sh", "-c", stubborn).up()
	a.signal(syscall.SIGKILL)
	clitest.Eventually(t, a.alive)

	b := x.exec("--ttl", shortTTL, "--", "sh", "-c", stubborn).up() // after the lease of a
	if err := syscall.Kill(parent(t, b.pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.ends(cli.ExitFailure, "warden died: signal: killed")
}

// The lock is free only when a daemon that the command left behind has ended.
func testExecLeftBehind(t *testing.T, x *theatre) {
	file := filepath.Join(t.TempDir(), "file")
	a := x.exec("--", "sh", "-c", `(setsid sh -c 'trap "sleep 0.5; echo done >`+file+`; exit" TERM; echo $$; while :; do sleep 0.02; done' &); read -r x`).up()
	next := x.exec("cat", file)
	client := x.client()
	clitest.Until(t, "two keys", func() bool { return len(x.keys(client).Kvs) == 2 })
	a.ends(1) // read at the end of its input
	next.says("done")
	next.ends(0)
}
