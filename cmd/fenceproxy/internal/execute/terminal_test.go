package execute

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// terminal is a shell with job control in a terminal of its own.
type terminal struct {
	t      *testing.T
	master *os.File
	screen strings.Builder
	seen   int // how much of the screen was looked at
	read   chan []byte
}

func openTerminal(t *testing.T, env ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	shell := exec.Command("bash", "--norc", "--noprofile", "-i")
	shell.Env = append(append(os.Environ(), "PS1=$ ", "TERM=dumb", "HISTFILE="), env...)
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, master: master, read: make(chan []byte)}
	ended := make(chan struct{})
	go func() {
		defer close(x.read)
		for buffer := make([]byte, 4096); ; {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			select {
			case x.read <- append([]byte{}, buffer[:n]...):
			case <-ended:
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = shell.Process.Kill()
		_ = shell.Wait()
		close(ended)
		for range x.read { // until everybody has closed the terminal
		}
		master.Close()
	})
	return x
}

func (x *terminal) types(text string) {
	x.t.Helper()
	if _, err := x.master.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits until text is on the screen, after what was waited for before.
func (x *terminal) shows(text string) {
	x.t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		if at := strings.Index(x.screen.String()[x.seen:], text); at >= 0 {
			x.seen += at + len(text)
			return
		}
		select {
		case bytes, ok := <-x.read:
			if !ok {
				x.t.Fatalf("the terminal was closed before it showed %q:\n%s", text, x.screen.String())
			}
			x.screen.Write(bytes)
		case <-deadline:
			x.t.Fatalf("the terminal does not show %q:\n%s", text, x.screen.String())
		}
	}
}

// line is a command line of exec; what the terminal echoes of it contains no
// word that a test waits for.
func (x *theatre) line(args ...string) string {
	return shellWords(append([]string{x.program, "exec", "--lock", x.lock(""), "--resource", "orders", "--"}, args...))
}

func testExecTerminal(t *testing.T, x *theatre) {
	tty := openTerminal(t)
	script := `trap "echo got-\$((1 + 1))" INT; echo up-$((1 + 1)); while :; do read -r x && echo "read-$x" && [ "$x" = bye ] && exit 9; done`
	tty.types(x.line("bash", "-c", script) + "\n")
	tty.shows("up-2")
	tty.types("hello\n")
	tty.shows("read-hello")
	// Ctrl-C; bash runs its trap after the read that the signal came just before.
	tty.types("\x03\n")
	tty.shows("got-2")
	for range 2 {
		tty.types("\x1a") // Ctrl-Z
		tty.shows("Stopped")
		tty.types("echo shell-$((1 + 1))\n")
		tty.shows("shell-2")
		tty.types("fg\n")
		tty.types("again\n")
		tty.shows("read-again")
	}
	tty.types("bye\n")
	tty.shows("read-bye")
	tty.types("echo code-$?\n")
	tty.shows("code-9")

	// In the background it may not read; fg lets it.
	tty.types(x.line("bash", "-c", `echo up-$((2 + 2)); read -r x; echo "read-$x"`) + "&\n")
	tty.shows("up-4")
	tty.types("until jobs | grep 'Stop[p]ed'; do sleep 0.1; done\n") // it stops when it reads, which may be a moment later
	tty.shows("Stopped")
	tty.types("fg\n")
	tty.types("word\n")
	tty.shows("read-word")
	tty.types("echo code-$?\n")
	tty.shows("code-0")
}

// In a pipeline the terminal belongs to others too, until the command asks.
func testExecPipeline(t *testing.T, x *theatre) {
	tty := openTerminal(t)
	tty.types(x.line("sh", "-c", `echo up-$((1 + 1)); read -r x </dev/tty; echo "read-$x"`) + "</dev/null | cat\n")
	tty.shows("up-2")
	tty.types("word\n")
	tty.shows("read-word")
	tty.types("echo code-$((1 + 1))\n")
	tty.shows("code-2")
	// The terminal is still the pipeline's, and Ctrl-C reaches the command.
	tty.types(x.line("sh", "-c", `echo up-$((2 + 2)); exec sleep 1000`) + "| cat\n")
	tty.shows("up-4")
	tty.types("\x03")
	tty.types("echo code-${PIPESTATUS[0]}\n")
	tty.shows("code-130")
}

// What ends in the background leaves the terminal to those who use it: their
// modes (one that the shell's own line editor does not touch), and the foreground.
func testExecBackground(t *testing.T, x *theatre) {
	tty := openTerminal(t)
	tty.types(x.line("sh", "-c", `echo up-$((1 + 1)); exec sleep 1000`) + "&\n")
	tty.shows("up-2")
	tty.types(`sh -c 'stty -echoctl; echo set-$((1 + 1)); while kill -0 $1; do sleep 0.02; done; echo kept-$(stty -a | grep -c -e -echoctl)' sh $!` + "\n")
	tty.shows("set-2")
	x.revoke()
	tty.shows("kept-1")
	tty.types("stty echoctl\n")

	// This one had the terminal, until it was stopped and the shell took it.
	file := filepath.Join(t.TempDir(), "pid")
	tty.types(x.line("sh", "-c", `echo $$ >`+file+`; echo up-$((2 + 2)); exec sleep 1000`) + "\n")
	tty.shows("up-4")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	program, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	stopped := parent(t, parent(t, program))
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := syscall.Kill(stopped, s); err != nil {
			t.Fatal(err)
		}
		if s == syscall.SIGSTOP {
			tty.shows("Stopped")
			// Twice, since a read that has begun goes on without the foreground.
			tty.types(`sh -c 'echo front-$((1 + 1)); read -r x; read -r x; echo "read-$x"'` + "\n")
			tty.shows("front-2")
		}
	}
	x.revoke()
	clitest.Until(t, "exec is over", func() bool { return !isAlive(stopped) })
	tty.types("one\n")
	tty.types("two\n")
	tty.shows("read-two")
}

// A shell that is killed leaves a job in the foreground, and its modes behind.
func testExecTerminalShell(t *testing.T, x *theatre) {
	tty := openTerminal(t)
	tty.types(x.line("bash", "--norc", "--noprofile", "-i") + "\n")
	tty.shows("$ ")
	tty.types(`sh -c 'stty -echoctl; echo set-$((1 + 1)); exec sleep 1000'` + "\n")
	tty.shows("set-2")
	x.revoke()
	tty.shows("was ended by signal 9")
	tty.types("echo code-$? left-$(stty -a | grep -c -e -echoctl)\n")
	tty.shows("code-76 left-0")
}

func testExecTerminalPsql(t *testing.T, x *theatre) {
	url := testenv.Postgres(t).Database(t)
	tty := openTerminal(t, "PAGER=cat", "PSQL_HISTORY=/dev/null")
	tty.types(x.line(client(t, "psql"), "-X", url) + "\n")
	tty.shows("=# ")
	tty.types("select 'a'||'b' as " + `"up-now"` + ";\n")
	tty.shows("(1 row)")
	tty.types("do $$ begin raise notice 'slee%', 'ping'; perform pg_sleep(1000); end $$;\n")
	tty.shows("sleeping")
	tty.types("\x03")
	tty.shows("canceling statement due to user request")
	tty.types("\\q\n")
	tty.types("echo code-$?\n")
	tty.shows("code-0")
}
