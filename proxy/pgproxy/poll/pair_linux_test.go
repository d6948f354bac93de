package poll

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"golang.org/x/sys/unix"
)

// testLimit is how long anything may take that is to happen at all.
const testLimit = 30 * time.Second

var networks = []string{"tcp", "unix"}

// connect returns both ends of a connection, which the runtime waits for.
func connect(network string) (a, b net.Conn, err error) {
	if network == "tcp" {
		return connectTCP()
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conn, fileErr := net.FileConn(f)
		conns[i], err = conn, errors.Join(err, fileErr, f.Close())
	}
	return conns[0], conns[1], err
}

func connectTCP() (a, b net.Conn, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		return nil, nil, err
	}
	b, err = ln.Accept()
	return a, b, err
}

// adopted is a connection of a loop's and its other end, until the test ends.
func adopted(t *testing.T, l *Loop, network string) (*Conn, net.Conn) {
	t.Helper()
	a, b, err := connect(network)
	if err != nil {
		t.Fatal(err)
	}
	c, ok, err := l.Adopt(a)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, b
}

// within wants f to return.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	await(t, what, done)
}

// await wants something to be sent, or closed.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(testLimit):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s: it hangs\n%s", what, buf[:runtime.Stack(buf, true)])
	}
	return v
}

// eventually wants something to become true that nobody tells of.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Microsecond)
	defer ticker.Stop()
	for end := time.Now().Add(testLimit); !holds(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func write(t *testing.T, conn net.Conn, b string) {
	t.Helper()
	if _, err := conn.Write([]byte(b)); err != nil {
		t.Fatal(err)
	}
}

// one lets one goroutine read and one write at a time, as a Conn wants it.
type one struct {
	*Conn

	reading, writing sync.Mutex
}

func (o *one) Read(b []byte) (int, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	return o.Conn.Read(b)
}

func (o *one) Write(b []byte) (int, error) {
	o.writing.Lock()
	defer o.writing.Unlock()
	return o.Conn.Write(b)
}

// TestConn: a Conn is a net.Conn, but that it wants one reader and one writer.
func TestConn(t *testing.T) {
	t.Parallel()
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				var loops [2]Loop
				a, b, err := connect(network)
				if err != nil {
					return nil, nil, nil, err
				}
				ca, _, errA := loops[0].Adopt(a)
				cb, _, errB := loops[1].Adopt(b)
				return &one{Conn: ca}, &one{Conn: cb}, func() { ca.Close(); cb.Close() }, errors.Join(errA, errB)
			})
		})
	}
}

// TestAdopt: what no loop can take is left as it was.
func TestAdopt(t *testing.T) { // not in parallel: it takes all file descriptors
	var l Loop
	a, b := net.Pipe()
	defer a.Close()
	if c, ok, err := l.Adopt(b); c != nil || ok || err != nil {
		t.Errorf("a pipe is taken: %v, %v", ok, err)
	}
	go b.Close()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the pipe: %v", err)
	}
	for _, network := range networks {
		a, b, err := connect(network)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		defer b.Close()
		for spare := range uint64(3) { // none for the duplicate, the loop, its end
			limitFiles(t, spare, func() {
				for range 20 {
					if _, ok, err := l.Adopt(a); ok || !errors.Is(err, unix.EMFILE) {
						t.Errorf("with %d file descriptors: %v, %v", spare, ok, err)
					}
				}
			})
			write(t, b, "x")
			if n, err := a.Read(make([]byte, 2)); n != 1 || err != nil {
				t.Errorf("the connection that was not taken: %d, %v", n, err)
			}
		}
		limitFiles(t, 3, func() { // nothing was left open
			c, ok, err := l.Adopt(a)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			c.Close()
			l.wantsEnd(t)
		})
		if c, ok, err := l.Adopt(a); c != nil || ok || !errors.Is(err, net.ErrClosed) {
			t.Errorf("one that is closed is taken: %v, %v", ok, err)
		}
	}
}

func (l *Loop) wantsEnd(t *testing.T) {
	t.Helper()
	eventually(t, "the loop has ended", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.runs
	})
}

// limitFiles runs f while the process can open so many files more.
func limitFiles(t *testing.T, spare uint64, f func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	// File descriptors are given from the lowest: find where those end.
	var used []int
	for range 64 {
		fd, err := unix.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, fd)
	}
	for _, fd := range used {
		_ = unix.Close(fd)
	}
	before := openFiles(t)
	defer func() {
		if after := openFiles(t); after > before {
			t.Errorf("%d file descriptors are left open", after-before)
		}
	}()
	limited := was
	limited.Cur = uint64(used[spare])
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limited); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}
