package execute

import (
	"bufio"
	"crypto/rand"
	"os"
	"os/exec"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// shortTTL is for tests in which a lease is lost.
const shortTTL = "3s"

// TestExec runs the built program: what matters is what becomes of processes.
func TestExec(t *testing.T) {
	t.Parallel()
	program := clitest.Built(t)
	for name, f := range map[string]func(*testing.T, *theatre){
		"exit codes":          testExecExitCodes,
		"streams":             testExecStreams,
		"environment":         testExecEnvironment,
		"held":                testExecHeld,
		"shared":              testExecShared,
		"lock services":       testExecLockServices,
		"secured services":    testExecSecured,
		"unreachable":         testExecUnreachable,
		"print":               testExecPrint,
		"signals":             testExecSignals,
		"signals while wait":  testExecSignalsWhileWaiting,
		"suspended":           testExecSuspended,
		"lease revoked":       testExecRevoked,
		"lock service frozen": testExecFrozen,
		"stopped":             testExecStopped,
		"killed":              testExecKilled,
		"left behind":         testExecLeftBehind,
		"psql":                testExecPsql,
		"psql, options":       testExecPsqlOptions,
		"stale psql":          testExecStalePsql,
		"pgbench":             testExecPgbench,
		"claims":              testExecClaims,
		"claim blocked":       testExecClaimBlocked,
		"claim heals":         testExecHeals,
		"terminal":            testExecTerminal,
		"terminal, pipeline":  testExecPipeline,
		"terminal, psql":      testExecTerminalPsql,
		"terminal, shared":    testExecBackground,
		"terminal, shell":     testExecTerminalShell,
		"signal at start":     testExecSignalAtStart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := testenv.Etcd(t)
			f(t, &theatre{t: t, program: program, etcd: etcd, prefix: "test/" + locks.NewID() + "/"})
		})
	}
}

// theatre is where a test plays.
type theatre struct {
	t       *testing.T
	program string
	etcd    *testenv.EtcdServer
	prefix  string // of the keys in etcd
}

// lock is the URL of the lock service; through a link if addr is not "".
func (x *theatre) lock(addr string) string {
	if addr == "" {
		addr = x.etcd.Endpoints()[0]
	}
	return "etcd://" + addr + "/" + x.prefix
}

// on is the same in a subtest.
func (x *theatre) on(t *testing.T) *theatre {
	y := *x
	y.t = t
	return &y
}

func (x *theatre) client() *clientv3.Client {
	x.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: x.etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { client.Close() })
	return client
}

// keys are those of the locks of orders.
func (x *theatre) keys(client *clientv3.Client) *clientv3.GetResponse {
	x.t.Helper()
	found, err := client.Get(x.t.Context(), x.prefix+"orders/", clientv3.WithPrefix())
	if err != nil {
		x.t.Fatal(err)
	}
	return found
}

// revoke takes the lease away from whoever holds orders.
func (x *theatre) revoke() {
	x.t.Helper()
	client := x.client()
	found := x.keys(client)
	if len(found.Kvs) != 1 {
		x.t.Fatalf("there are %d keys", len(found.Kvs))
	}
	if _, err := client.Revoke(x.t.Context(), clientv3.LeaseID(found.Kvs[0].Lease)); err != nil {
		x.t.Fatal(err)
	}
}

// exec starts exec on orders with the lock in etcd; args follow its flags.
func (x *theatre) exec(args ...string) *act {
	x.t.Helper()
	return x.start(append([]string{"--lock", x.lock(""), "--resource", "orders"}, args...)...)
}

func (x *theatre) start(args ...string) *act {
	x.t.Helper()
	a := x.prepare(args...)
	if err := a.cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	a.watch()
	return a
}

func (x *theatre) prepare(args ...string) *act {
	x.t.Helper()
	a := &act{t: x.t, marker: rand.Text(), cmd: exec.Command(x.program, append([]string{"exec"}, args...)...)}
	a.cmd.Env = append(os.Environ(), clitest.MarkerEnv+"="+a.marker)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell starts a job
	a.cmd.Stderr = &a.stderr
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		x.t.Fatal(err)
	}
	a.out = bufio.NewReader(stdout)
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if a.cmd.Process != nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait()
		}
	})
	return a
}
