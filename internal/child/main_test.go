package child_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/child"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// The test binary is also the two other processes of a test, by its
// environment.
const (
	roleEnv   = "CHILD_TEST_ROLE"
	configEnv = "CHILD_TEST_CONFIG"
	markerEnv = "CHILD_TEST_MARKER"
	patience  = 60 * time.Second
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "warden":
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		if err := child.RunWarden(os.Args[1:]); err != nil {
			panic(err)
		}
		return
	case "mute":
		beMute(os.Args[1], os.Args[3], os.Args[4:])
		return
	case "supervisor":
		supervise()
		return
	}
	os.Exit(testenv.Run(m))
}

// order says how a supervisor runs a shell script.
type order struct {
	Script string        `json:"script"`
	Term   time.Duration `json:"term"` // from the start
	Kill   time.Duration `json:"kill"`
	Grace  time.Duration `json:"grace"`
	Mute   bool          `json:"mute"` // the warden dies when the script says that it is up
}

// supervise tells on standard error what happens, a line each. SIGUSR1 makes it
// stop the program, SIGUSR2 give it limits that are close.
func supervise() {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(configEnv)), &o); err != nil {
		panic(err)
	}
	// Set, not appended: a second value could be the one that is not seen, and
	// every warden would then be a supervisor with a warden of its own.
	role := "warden"
	if o.Mute {
		role = "mute"
	}
	if err := os.Setenv(roleEnv, role); err != nil {
		panic(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	now := time.Now()
	p, err := child.Start(child.Config{
		Warden: []string{os.Args[0]},
		Path:   "/bin/sh", Args: []string{"sh", "-c", o.Script},
		Env:    os.Environ(),
		Limits: child.Limits{Term: now.Add(o.Term), Kill: now.Add(o.Kill)},
		Grace:  o.Grace,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "not started:", err)
		return
	}
	fmt.Fprintln(os.Stderr, "started", p.PID())
	go func() {
		if s := <-signals; s == syscall.SIGUSR1 {
			p.Stop()
		} else {
			p.SetLimits(child.Limits{Term: time.Now(), Kill: time.Now().Add(o.Grace)})
		}
	}()
	for e := range p.Events() {
		if e.Stopped != 0 {
			fmt.Fprintln(os.Stderr, "stopped", int(e.Stopped))
		}
	}
	end, err := p.End()
	fmt.Fprintf(os.Stderr, "end code=%d signal=%d stopped=%v err=%v\n", end.Code, int(end.Signal), end.Stopped, err)
}

// beMute is a warden that dies between the start of a program and the report of
// it.
func beMute(socket, path string, argv []string) {
	fd, err := strconv.Atoi(socket)
	if err != nil {
		panic(err)
	}
	syscall.CloseOnExec(fd)
	out, in, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	if _, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, in, os.Stderr}}); err != nil {
		panic(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		panic(err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// scene is a supervisor with all that it started.
type scene struct {
	t      *testing.T
	cmd    *exec.Cmd
	marker string
	told   *bufio.Reader // by the supervisor
	said   *bufio.Reader // by the script
	pid    int           // of the script
	began  time.Time
}

// play runs a scene until the script has started.
func play(t *testing.T, o order) *scene {
	t.Helper()
	s := open(t, o)
	if _, err := fmt.Sscanf(s.line(s.told), "started %d", &s.pid); err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, o order) *scene {
	t.Helper()
	s := &scene{t: t, marker: rand.Text(), began: time.Now()}
	if o.Term == 0 {
		o.Term, o.Kill = patience, 2*patience
	}
	if o.Grace == 0 {
		o.Grace = patience
	}
	config, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), roleEnv+"=supervisor", configEnv+"="+string(config), markerEnv+"="+s.marker)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.told, s.said = bufio.NewReader(stderr), bufio.NewReader(stdout)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // whatever the test found out
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		for _, pid := range s.alive() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

func (s *scene) line(from *bufio.Reader) string {
	s.t.Helper()
	line, err := from.ReadString('\n')
	if err != nil {
		s.t.Fatalf("read line: %v (got %q)", err, line)
	}
	return strings.TrimSpace(line)
}

// up waits for the script to say so.
func (s *scene) up() {
	s.t.Helper()
	if got := s.line(s.said); got != "up" {
		s.t.Fatalf("the script says %q", got)
	}
}

// ends wants the supervisor to tell that end, and nothing to be left.
func (s *scene) ends(want string) {
	s.t.Helper()
	if got := s.line(s.told); got != "end "+want {
		s.t.Errorf("the supervisor tells %q, want %q", got, "end "+want)
	}
	for _, pid := range s.alive() {
		if pid != s.cmd.Process.Pid {
			s.t.Errorf("process %d is alive: %s", pid, read(pid, "cmdline"))
		}
	}
}

// gone waits until nothing is alive but what may be.
func (s *scene) gone(except ...int) {
	s.t.Helper()
	deadline := time.After(patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		left := 0
		for _, pid := range s.alive() {
			left++
			for _, other := range except {
				if pid == other {
					left--
				}
			}
		}
		if left == 0 {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			s.t.Fatalf("still alive: %v", s.alive())
		}
	}
}

// alive lists the processes of this scene: an environment is inherited by
// everybody, and a zombie has none.
func (s *scene) alive() []int {
	var alive []int
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil &&
			bytes.Contains(read(pid, "environ"), []byte(markerEnv+"="+s.marker)) {
			alive = append(alive, pid)
		}
	}
	return alive
}

// warden is the process that is the script's parent.
func (s *scene) warden() int {
	s.t.Helper()
	stat := string(read(s.pid, "stat"))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

func read(pid int, name string) []byte {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	return text
}
