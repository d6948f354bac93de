package pgproxy

import (
	"bytes"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jackc/pgx/v5/pgproto3"
)

// standInSession is a session between a client of ours and the stand-in, both over
// sockets that a loop waits for.
func standInSession(t *testing.T, c Config, server *standIn) *relayed {
	t.Helper()
	c.Upstream.Address = filepath.Join(t.TempDir(), "none.sock")
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r := startRelayed(t, s, server, nil, 0, 1<<16, make(chan struct{}))
	r.wants(t, direct(nil, server.token))
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
	raw, err := r.client.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the proxy has read it", func() bool {
		var left int
		controlErr := raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), syscall.TIOCOUTQ) })
		if err != nil || controlErr != nil {
			t.Fatal(err, controlErr)
		}
		return left == 0
	})
}

// TestSegments: a message whose first bytes the loop has read, and its rest when
// the loop has handed over, is relayed, wherever it is cut.
func TestSegments(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "ft1:x:1:h:i:r"} {
		r := standInSession(t, Config{Untokened: Allow}, newStandIn(token, false))
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
