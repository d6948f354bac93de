package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/demo"
	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// result checks the one line that demo --json ends with.
func result(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	var r demo.Result
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("last line of stdout: %v\n%s", err, out)
	}
	if len(lines) != 1 {
		t.Errorf("stdout has more than the result:\n%s", out)
	}
	unfenced := demo.Account{StaleWritesApplied: 1, Acknowledged: 4, Entries: 4, Amount: 130, Balance: 1100, Expected: 1130}
	if r.Unfenced != unfenced {
		t.Errorf("unfenced: %+v, want %+v", r.Unfenced, unfenced)
	}
	fenced := demo.Account{StaleWritesRefused: 1, Acknowledged: 4, Entries: 4, Amount: 130, Balance: 1130, Expected: 1130, Right: true}
	if r.Fenced != fenced {
		t.Errorf("fenced: %+v, want %+v", r.Fenced, fenced)
	}
}

// The story on servers of its own, from end to end.
func TestDemo(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips where
	testenv.Etcd(t)     // there is none
	program := clitest.Built(t)

	t.Run("own servers", func(t *testing.T) {
		t.Parallel()
		s := start(t, program, "--json")
		out, code := s.wait(t)
		if code != cli.ExitOK {
			t.Fatalf("exit code %d\n%s", code, s.stderr.String())
		}
		result(t, out)
		clitest.CheckGone(t, s.leftBehind())
		for _, line := range []string{
			"SIGSTOP to worker 1", "waits: the lease of worker 1", "acquired the lock", "ft1:x:",
			"SIGCONT to worker 1", "THE LEDGER IS WRONG", "REFUSED, nothing written: TK001", "the ledger is right",
		} {
			if !strings.Contains(s.stderr.String(), line) {
				t.Errorf("the timeline has no %q:\n%s", line, s.stderr.String())
			}
		}
		if strings.Contains(s.stderr.String(), "\x1b") {
			t.Error("colours outside of a terminal")
		}
	})
	t.Run("guest of a superuser", func(t *testing.T) { t.Parallel(); testGuest(t, program, guest{}) })
	t.Run("guest of a role", func(t *testing.T) { t.Parallel(); testGuest(t, program, guest{role: true}) })
	t.Run("guest of a fenced database", func(t *testing.T) { t.Parallel(); testGuest(t, program, guest{fence: true}) })
	t.Run("guest of a role in a fenced database", func(t *testing.T) {
		t.Parallel()
		testGuest(t, program, guest{role: true, fence: true})
	})
	t.Run("interrupted", func(t *testing.T) { t.Parallel(); testStopped(t, program, syscall.SIGINT, 130) })
	t.Run("terminated", func(t *testing.T) { t.Parallel(); testStopped(t, program, syscall.SIGTERM, 143) })
	t.Run("killed", func(t *testing.T) { t.Parallel(); testStopped(t, program, syscall.SIGKILL, -1) })
	t.Run("killed as a guest", func(t *testing.T) { t.Parallel(); testKilledGuest(t, program) })
	t.Run("programs out of reach", func(t *testing.T) { t.Parallel(); testOutOfReach(t, program) })
	t.Run("servers that are not there", func(t *testing.T) { t.Parallel(); testNoServers(t, program) })
}

// testStopped stops the demo at its most delicate: while the first worker is
// stopped, which a signal to it would not end.
func testStopped(t *testing.T, program string, signal syscall.Signal, code int) {
	s := start(t, program)
	s.until(t, "SIGSTOP to worker 1")
	s.until(t, "worker 2")
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	out, got := s.wait(t)
	if got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, s.stderr.String())
	}
	if signal == syscall.SIGKILL {
		clitest.Eventually(t, s.leftBehind)
		return
	}
	clitest.CheckGone(t, s.leftBehind())
	if !strings.Contains(s.stderr.String(), "fenceproxy: stopped by SIG") || strings.Contains(out, "{") {
		t.Errorf("stderr: %s\nstdout: %s", s.stderr.String(), out)
	}
}

// testOutOfReach runs the demo as root from a checkout that root alone can reach,
// where its Postgres may not run.
func testOutOfReach(t *testing.T, program string) {
	if os.Geteuid() != 0 {
		return
	}
	checkout := filepath.Join(t.TempDir(), "checkout")
	if err := os.Mkdir(checkout, 0o700); err != nil {
		t.Fatal(err)
	}
	postgres, err := localserver.FindPostgres(t.Context(), filepath.Dir(program))
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(checkout, fmt.Sprintf("postgres-%d", postgres.Major), "bin")
	if err := os.CopyFS(filepath.Dir(bin), os.DirFS(filepath.Dir(postgres.Bin))); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(checkout, filepath.Base(program))
	if err := os.Link(program, inside); err != nil {
		t.Fatal(err)
	}
	// Without this one, etcd is in PATH.
	if err := os.Symlink(filepath.Join(filepath.Dir(program), "etcd"), filepath.Join(checkout, "etcd")); err != nil {
		t.Fatal(err)
	}
	// The temporary folder is open to all, as /tmp is.
	if err := os.Chmod(filepath.Dir(t.TempDir()), 0o711); err != nil {
		t.Fatal(err)
	}
	s := start(t, inside)
	s.until(t, "of its own ("+bin+")")
	s.until(t, "PostgreSQL listens on")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if out, code := s.wait(t); code != 143 {
		t.Errorf("exit code %d\n%s%s", code, out, s.stderr.String())
	}
	clitest.CheckGone(t, s.leftBehind())
}

func testNoServers(t *testing.T, program string) {
	// All at once: it takes each some seconds to give up.
	for s, words := range map[*show][]string{
		start(t, program, "--postgres", clitest.Nowhere): {"cannot reach Postgres at 127.0.0.1:1"},
		start(t, program, "--etcd", "127.0.0.1:1"):       {"etcd at 127.0.0.1:1 does not answer", "check the address"},
	} {
		_, code := s.wait(t)
		clitest.Outcome{Code: code, Out: "", Err: s.stderr.String()}.Want(t, cli.ExitUnreachable, words...)
		clitest.CheckGone(t, s.leftBehind())
		if strings.Contains(s.stderr.String(), "s3cret") {
			t.Errorf("stderr has the password: %s", s.stderr.String())
		}
	}
	// Beside this program and in PATH there is no etcd.
	alone := filepath.Join(t.TempDir(), "fenceproxy")
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(alone, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), alone, "demo", "--postgres", testenv.Postgres(t).Database(t))
	cmd.Env = []string{"PATH=/nonexistent", "TMPDIR=" + t.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run() // its exit code tells
	clitest.Outcome{Code: cmd.ProcessState.ExitCode(), Out: "", Err: stderr.String()}.Want(t, cli.ExitUnreachable, "etcd is not on this machine", "make servers", "--etcd")
}
