package clitest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MarkerEnv tells the processes of one test from all others.
const MarkerEnv = "FENCEPROXY_DEMO_TEST"

// Built builds the program into a folder with links to the servers in .bin, so
// that they are beside it as they are in a checkout.
func Built(t testing.TB) string {
	t.Helper()
	dir, module := t.TempDir(), moduleFolder(t)
	servers, _ := filepath.Glob(filepath.Join(module, ".bin", "*"))
	for _, server := range servers {
		if err := os.Symlink(server, filepath.Join(dir, filepath.Base(server))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "fenceproxy")
	if err := os.RemoveAll(path); err != nil { // `make build` leaves one in .bin
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/fenceproxy")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// moduleFolder is the folder of this module, which tests run somewhere below.
func moduleFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("there is no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// ProcessesOf are the processes of the test with a marker in their environment.
func ProcessesOf(marker string) []string {
	var left []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && bytes.Contains(environ, []byte(MarkerEnv+"="+marker)) {
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			left = append(left, filepath.Base(dir)+" "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return left
}

// Eventually polls for what a killed demo leaves to its cleaner.
func Eventually(t *testing.T, what func() []string) {
	t.Helper()
	poll, deadline := time.NewTicker(50*time.Millisecond), time.After(60*time.Second)
	defer poll.Stop()
	for {
		left := what()
		if len(left) == 0 {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
		}
	}
}

// CheckGone wants nothing to be left behind.
func CheckGone(t *testing.T, left []string) {
	t.Helper()
	if len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// Until polls.
func Until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	poll, deadline := time.NewTicker(10*time.Millisecond), time.After(60*time.Second)
	defer poll.Stop()
	for !cond() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Resident is the resident memory of a process, in MiB.
func Resident(tb testing.TB, pid int) float64 { tb.Helper(); return memory(tb, pid, "VmRSS") }

// Peak is the most resident memory that a process has had at once, in MiB.
func Peak(tb testing.TB, pid int) float64 { tb.Helper(); return memory(tb, pid, "VmHWM") }

func memory(tb testing.TB, pid int, field string) float64 {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), field+":")
	if !found {
		tb.Fatalf("no %s: it has ended\n%s", field, status)
	}
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kib / 1024
}
