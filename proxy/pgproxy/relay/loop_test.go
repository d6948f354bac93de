package relay

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
)

// standInSession is a session between a client of ours and the stand-in, both over
// sockets that a loop waits for.
func standInSession(t *testing.T, c Config, server *standIn) *relayed {
	t.Helper()
	r := startRelayed(t, newRelaying(c), server, nil, 0, 1<<16, make(chan struct{}))
	r.wants(t, server.direct(nil))
	return r
}

// wants waits until the client has got all of that.
func (r *relayed) wants(t *testing.T, want []byte) {
	t.Helper()
	r.await(testLimit, func(got []byte) bool { return len(got) >= len(want) })
	if got := r.received(); !bytes.Equal(got, want) {
		t.Fatalf("the client gets\n %q\nwant\n %q", short(got), short(want))
	}
}

// sendTaken writes to the proxy, and waits until it has read that.
func (r *relayed) sendTaken(t *testing.T, b []byte) {
	t.Helper()
	if _, err := r.client.Write(b); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the proxy has read it", func() bool { return ioctl(t, r.client, unix.TIOCOUTQ) == 0 })
}

// TestSegments: a message whose first bytes the loop has read, and its rest when
// the loop has handed over, is relayed, wherever it is cut.
func TestSegments(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "ft1:x:1:h:i:r"} {
		r := standInSession(t, Config{Untokened: gate.Allow}, newStandIn(token, false))
		stream := []byte(nil)
		for _, m := range []pgproto3.FrontendMessage{&pgproto3.Sync{}, &pgproto3.Query{String: "INSERT INTO t VALUES (1)"}} {
			message, err := m.Encode(nil)
			if err != nil {
				t.Fatal(err)
			}
			for cut := 1; cut < len(message); cut++ {
				r.sendTaken(t, message[:cut])
				r.sendTaken(t, message[cut:])
				stream = append(stream, message...)
				r.wants(t, direct(stream, token))
			}
		}
		r.finish(t, testLimit)
	}
}

// ioctl asks the kernel about our end of a connection.
func ioctl(t *testing.T, conn net.Conn, what uint) (n int) {
	t.Helper()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	controlErr := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), what) })
	if err := errors.Join(err, controlErr); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDeafClient: a session whose client reads nothing any more, so that a reply
// is stuck, still ends: when it has idled in its transaction for too long, and
// when it is cut.
func TestDeafClient(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"idles in a transaction": 2 * time.Second, "is cut": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRelaying(Config{IdleInTransaction: limit})
			ctx, cut := context.WithCancel(t.Context())
			defer cut()
			r := &relayed{standIn: newStandIn("ft1:x:1:h:i:r", false), ended: make(chan error, 1), played: make(chan struct{})}
			l := s.link()
			l.Client, r.client = connPair(t, true)
			l.Server, r.server = connPair(t, true)
			defer r.client.Close()
			go func() { r.ended <- s.Serve(ctx, l, nil) }()
			go r.play(nil, 0, 1<<16)
			said := "BEGIN"
			for stuck := false; !stuck; said = "SELECT 1" {
				before := ioctl(t, r.client, unix.TIOCINQ)
				message, _ := (&pgproto3.Query{String: said}).Encode(nil)
				if _, err := r.client.Write(message); err != nil {
					t.Fatal(err)
				}
				stuck = !within(500*time.Millisecond, func() bool { return ioctl(t, r.client, unix.TIOCINQ) != before })
			}
			if name == "is cut" {
				cut()
			}
			select {
			case <-r.ended:
			case <-time.After(testLimit):
				buf := make([]byte, 1<<20)
				t.Fatalf("the session hangs\n%s", buf[:runtime.Stack(buf, true)])
			}
			<-r.played
		})
	}
}
