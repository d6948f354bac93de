package execute

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// nowherePort is where nobody listens.
const nowherePort = "127.0.0.1:1"

// ready is a script's end: not one that reads, since a signal that comes between
// a shell's look at its traps and read(2) waits there until there is a line.
const ready = `echo $$; while :; do sleep 0.02; done`

func testExecHeld(t *testing.T, x *theatre) {
	holder := x.exec("--", "sh", "-c", ready).up()
	x.exec("--wait", "0s", "true").ends(cli.ExitHeld, `the lock of "orders"`, " is held by somebody else; fenceproxy lock status 'orders' shows by whom")
	x.exec("--wait", "300ms", "true").ends(cli.ExitHeld, "within 300ms; fenceproxy lock status 'orders' shows by whom")
	x.exec("--wait", "300ms", "--shared", "true").ends(cli.ExitHeld, "within")
	waiter := x.exec("--wait", "1m", "sh", "-c", "echo $FENCE_TOKEN")
	client := x.client()
	clitest.Until(t, "two keys", func() bool { return len(x.keys(client).Kvs) == 2 })
	holder.signal(syscall.SIGTERM)
	holder.ends(143)
	waiter.ends(0)
}

func testExecShared(_ *testing.T, x *theatre) {
	a := x.exec("--shared", "--", "sh", "-c", `echo $$; echo $FENCE_TOKEN | cut -c1-6; read -r x`).up()
	b := x.exec("--shared", "--", "sh", "-c", `echo $$; read -r x`).up()
	a.says("ft1:s:")
	x.exec("--wait", "0s", "true").ends(cli.ExitHeld, "is held by somebody else; ")
	a.in.Close()
	b.in.Close()
	a.ends(1)
	b.ends(1)
}

// Every kind of lock service, by the environment's URL.
func testExecLockServices(t *testing.T, x *theatre) {
	redis := testenv.Redis(t).Addr() + "?prefix=" + locks.NewID() + ":"
	for issuer, url := range map[string]string{
		"redis": "redis://" + redis,
		"other": "redis://" + redis + "x&issuer=other",
		"":      fmt.Sprintf("zk://%s/test/%s", testenv.ZooKeeper(t).Addr(), locks.NewID()),
	} {
		a := x.prepare("--resource", "orders/eu {1}", "--", "sh", "-c", `echo $FENCE_TOKEN; exit 3`)
		a.cmd.Env = append(a.cmd.Env, connect.LockEnv+"="+url)
		if err := a.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		token, err := guard.Parse(a.line())
		if err != nil || issuer != "" && token.Issuer != issuer || token.Resource != "orders/eu {1}" {
			t.Errorf("token of %s: %+v, %v", url, token, err)
		}
		a.ends(3)
	}
}

func testExecUnreachable(t *testing.T, x *theatre) {
	// All at once: it takes each some seconds to give up.
	var all []*act
	for _, url := range []string{
		"etcd://u:s3cret@" + nowherePort, "etcd://" + nowherePort, "redis://:s3cret@" + nowherePort, "redis+cluster://:s3cret@" + nowherePort,
		"redis+sentinel://:s3cret@" + nowherePort + "?master=m", "zk://u:s3cret@" + nowherePort,
		"etcds://h:1?cacert=/no/such/file",
	} {
		all = append(all, x.start("--lock", url, "--resource", "orders", "--ttl", "2s", "--wait", "1s", "true"))
	}
	for _, a := range all {
		scheme, _, _ := strings.Cut(a.cmd.Args[3], "://")
		a.ends(cli.ExitUnreachable, scheme+"://", "check the URL")
		if strings.Contains(a.stderr.String(), "cret") {
			t.Errorf("stderr has the password: %s", a.stderr.String())
		}
	}
	t.Run("denied", func(t *testing.T) {
		t.Parallel()
		s := testenv.StartRedis(t, testenv.RedisConfig{})
		if err := s.Client(t).ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
			t.Fatal(err)
		}
		a := x.on(t).start("--lock", "redis://:wr0ng@"+s.Addr(), "--resource", "orders", "true")
		a.ends(cli.ExitDenied, "check user and password")
		if strings.Contains(a.stderr.String(), "wr0ng") {
			t.Errorf("stderr has the password: %s", a.stderr.String())
		}
	})
}

func testExecPrint(t *testing.T, x *theatre) {
	a := x.exec("--print")
	token, err := guard.Parse(a.line())
	if err != nil || token.Resource != "orders" {
		t.Errorf("token %+v, %v", token, err)
	}
	x.exec("--wait", "0s", "true").ends(cli.ExitHeld, "is held by somebody else; ")
	a.in.Close()
	a.ends(0)

	b := x.exec("--print", "--ttl", shortTTL)
	b.line()
	x.revoke()
	// Not ends: that would close its input.
	_ = b.cmd.Wait()
	if code := b.cmd.ProcessState.ExitCode(); code != cli.ExitLost {
		t.Errorf("exit code %d: %s", code, b.stderr.String())
	}
}

func testExecSignals(_ *testing.T, x *theatre) {
	a := x.exec("--", "sh", "-c", `
		for s in HUP INT QUIT USR1 USR2 WINCH; do trap "echo $s" $s; done
		trap "echo TERM; exit 5" TERM
		`+ready)
	a.up()
	for _, s := range []struct {
		signal syscall.Signal
		name   string
	}{
		{syscall.SIGHUP, "HUP"},
		{syscall.SIGINT, "INT"},
		{syscall.SIGINT, "INT"},
		{syscall.SIGQUIT, "QUIT"},
		{syscall.SIGUSR1, "USR1"},
		{syscall.SIGUSR2, "USR2"},
		{syscall.SIGWINCH, "WINCH"},
		{syscall.SIGTERM, "TERM"},
	} {
		a.signal(s.signal)
		a.says(s.name)
	}
	a.ends(5)
}

// A signal that comes before the command runs ends exec, which gives up its
// place; one that was ignored from the start is ignored by all.
func testExecSignalsWhileWaiting(t *testing.T, x *theatre) {
	holder := x.exec("--", "sh", "-c", `trap "" HUP; `+ready).up()
	client := x.client()
	for s, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
	} {
		waiter := x.exec("true")
		clitest.Until(t, "two keys", func() bool { return len(x.keys(client).Kvs) == 2 })
		waiter.signal(syscall.SIGUSR1) // of no meaning yet
		waiter.signal(s)
		waiter.ends(cli.ExitSignal+int(s), "stopped by "+name)
		clitest.Until(t, "one key", func() bool { return len(x.keys(client).Kvs) == 1 })
	}
	holder.signal(syscall.SIGINT)
	holder.ends(130)

	a := x.prepare("--lock", x.lock(""), "--resource", "orders", "--", "sh", "-c", `kill -HUP $$; echo "still here"`)
	a.cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, a.cmd.Path}, a.cmd.Args[1:]...)
	a.cmd.Path = "/bin/sh"
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.says("still here")
	a.ends(0)
}

// A signal that comes about when the command starts ends exec or the command,
// whichever is there.
func testExecSignalAtStart(t *testing.T, x *theatre) {
	client := x.client()
	for i := range 10 {
		a := x.exec("sh", "-c", "echo started; exec sleep 1000")
		clitest.Until(t, "the lock is asked for", func() bool { return len(x.keys(client).Kvs) == 1 })
		for range i * 10 { // requests, as a clock that goes with the machine's
			x.keys(client)
		}
		a.signal(syscall.SIGTERM)
		if out, err := io.ReadAll(a.out); err != nil || len(out) > 0 && string(out) != "started\n" {
			t.Errorf("stdout: %q, %v", out, err)
		}
		_ = a.cmd.Wait() // its exit code tells
		if code := a.cmd.ProcessState.ExitCode(); code != cli.ExitSignal+int(syscall.SIGTERM) {
			t.Errorf("exit code %d\nstderr: %s", code, a.stderr.String())
		}
		clitest.CheckGone(t, a.alive())
	}
}

func testExecSuspended(t *testing.T, x *theatre) {
	// Without a process in the foreground: a shell that waits for a vfork cannot
	// stop while what it forked has stopped before its exec. A line ends a read
	// that a signal did not (see ready).
	a := x.exec("--", "sh", "-c", `trap "echo here" USR1; echo $$; while :; do read -r x; done`).up()
	for range 2 {
		a.signal(syscall.SIGTSTP)
		clitest.Until(t, "both stop", func() bool { return state(a.pid) == "T" && state(a.cmd.Process.Pid) == "T" })
		a.signal(syscall.SIGCONT)
		a.signal(syscall.SIGUSR1)
		clitest.Until(t, "it goes on", func() bool { return isAlive(a.pid) && state(a.pid) != "T" })
		if _, err := a.in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		a.says("here")
	}
	a.signal(syscall.SIGTERM)
	a.ends(143)
}
