package child_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/child"
)

// family is a script with everything that could escape: a process in the
// background, one in a session of its own, one that a dead parent left behind
// there, all deaf to signals that can be ignored.
const family = `
	trap "" TERM HUP INT
	sleep 300 &
	setsid sleep 300 &
	(setsid sh -c 'sleep 300 & sleep 300' &)
	echo up
`

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		order order
		want  string
	}{
		{"by itself", order{Script: "exit 7"}, "code=7 signal=0 stopped=false err=<nil>"},
		{"by a signal of its own", order{Script: "kill -USR1 $$"}, "code=0 signal=10 stopped=false err=<nil>"},
		{"at the first limit", order{Script: "sleep 300", Term: time.Millisecond, Kill: patience}, "code=0 signal=15 stopped=true err=<nil>"},
		{"leaving a family behind", order{Script: family, Grace: 300 * time.Millisecond}, "code=0 signal=0 stopped=false err=<nil>"},
		{
			"forking", // for a while only, should nobody end it
			order{Script: `f() { [ $1 = 0 ] || { (sleep 0.05; f $(($1 - 1))) & setsid sleep 300 & }; }; f 50; f 50; f 50; sleep 0.2`, Grace: 10 * time.Millisecond},
			"code=0 signal=0 stopped=false err=<nil>",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := play(t, c.order)
			for line := s.line(s.told); ; line = s.line(s.told) {
				if !strings.HasPrefix(line, "stopped") {
					if line != "end "+c.want {
						t.Errorf("the supervisor tells %q, want %q", line, "end "+c.want)
					}
					break
				}
			}
			s.gone(s.cmd.Process.Pid)
		})
	}
}

// A program is told to end when it is up, by Stop (USR1) or by new limits (USR2).
func TestTold(t *testing.T) {
	t.Parallel()
	const orderly = `trap "exit 3" TERM; echo up; sleep 300 & wait`
	for _, c := range []struct {
		name   string
		script string
		by     syscall.Signal
		want   string
	}{
		{"by Stop", orderly, syscall.SIGUSR1, "code=3 signal=0 stopped=true err=<nil>"},
		{"by limits", orderly, syscall.SIGUSR2, "code=3 signal=0 stopped=true err=<nil>"},
		{"by Stop while it is stopped", "echo up; kill -STOP $$; echo on", syscall.SIGUSR1, "code=0 signal=15 stopped=true err=<nil>"},
		{"by Stop, in vain", family + "wait", syscall.SIGUSR1, "code=0 signal=9 stopped=true err=<nil>"},
		{"by limits, in vain", family + "wait", syscall.SIGUSR2, "code=0 signal=9 stopped=true err=<nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := play(t, order{Script: c.script, Grace: time.Second})
			s.up()
			if strings.Contains(c.script, "STOP") {
				if got := s.line(s.told); got != "stopped 19" {
					t.Fatalf("the supervisor tells %q", got)
				}
			}
			if err := s.cmd.Process.Signal(c.by); err != nil {
				t.Fatal(err)
			}
			s.ends(c.want)
		})
	}
}

// What is left behind may end in its own time, up to the grace.
func TestLeftBehindHasTime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	s := play(t, order{Script: `(setsid sh -c 'trap "sleep 0.2; echo done >` + file + `; exit" TERM; echo up; while :; do sleep 0.01; done' &)
		read -r nothing; sleep 0.2`})
	s.up()
	s.ends("code=0 signal=0 stopped=false err=<nil>")
	if text, err := os.ReadFile(file); err != nil || string(text) != "done\n" {
		t.Errorf("the daemon did not end orderly: %q, %v", text, err)
	}
}

func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	s := play(t, order{Script: family + "wait"})
	s.up()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.gone()
}

// The limits hold although the supervisor can't do anything about them.
func TestSupervisorStopped(t *testing.T) {
	t.Parallel()
	s := play(t, order{Script: family + "wait", Term: 2 * time.Second, Kill: 3 * time.Second})
	s.up()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.gone(s.cmd.Process.Pid)
	if after := time.Since(s.began); after < 3*time.Second {
		t.Errorf("everything was over after %v, before the limit", after)
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.ends("code=0 signal=9 stopped=true err=<nil>")
}

func TestWardenKilled(t *testing.T) {
	t.Parallel()
	s := play(t, order{Script: family + "wait"})
	s.up()
	if err := syscall.Kill(s.warden(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.ends("code=0 signal=9 stopped=true err=warden died: signal: killed")
}

// The program is there, and nobody has said so: it must not be taken for one
// that could not be started.
func TestWardenKilledBeforeItsReport(t *testing.T) {
	t.Parallel()
	s := open(t, order{Script: family + "wait", Mute: true})
	if got := s.line(s.told); got != "not started: warden died: signal: killed" {
		t.Errorf("the supervisor tells %q", got)
	}
	for _, pid := range s.alive() {
		if pid != s.cmd.Process.Pid {
			t.Errorf("process %d is alive: %s", pid, read(pid, "cmdline"))
		}
	}
}

// A warden that hangs must not keep a supervisor that was stopped from being
// continued, and the other way round: the program is told to stop often, and
// nobody listens.
func TestStopsThatNobodyHears(t *testing.T) {
	t.Parallel()
	s := play(t, order{Script: `while :; do kill -STOP $$; done`, Term: 3 * time.Second, Kill: 4 * time.Second})
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for len(read(s.pid, "environ")) > 0 { // as fast as it can
			_ = syscall.Kill(s.pid, syscall.SIGCONT)
		}
	}()
	s.gone(s.cmd.Process.Pid)
	<-done
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/run": 0o755, "a/plain": 0o644, "b/plain": 0o755, "b/other": 0o755, "b/run": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, c := range []struct {
		name, path, want string
		err              error
	}{
		{"run", a + ":" + b, a + "/run", nil},
		{"other", a + ":" + b, b + "/other", nil},
		{"plain", a + ":" + b, b + "/plain", nil},
		{"plain", a, "", syscall.EACCES},
		{"plain", a + ":/nowhere", "", syscall.EACCES},
		{"none", a + ":" + b, "", syscall.ENOENT},
		{"none", "", "", syscall.ENOENT},
		{"", a, "", syscall.ENOENT},
		{a + "/run", "", a + "/run", nil},
		{a + "/plain", "", "", syscall.EACCES},
		{a + "/none", b, "", syscall.ENOENT},
		{a, b, "", syscall.EISDIR},
		{"child_test.go", "", "", syscall.EACCES}, // an empty folder is this one
	} {
		if got, err := child.Find(c.name, c.path); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Find(%q, %q) = %q, %v, want %q, %v", c.name, c.path, got, err, c.want, c.err)
		}
	}
}
