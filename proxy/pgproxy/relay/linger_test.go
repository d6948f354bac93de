package relay

import (
	"net"
	"testing"
	"time"
)

// deadlined is a connection of which only the read deadline matters.
type deadlined struct {
	net.Conn
	set []time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// TestInterruptSparesLingering: what ends the wait for a client's next message
// does not end the wait until the client has taken its last one.
func TestInterruptSparesLingering(t *testing.T) {
	t.Parallel()
	client := &deadlined{}
	s := &session{Link: &Link{Client: client}, wake: make(chan struct{}, 1)}
	s.interrupt()
	if len(client.set) != 1 {
		t.Fatalf("a read deadline was set %d times", len(client.set))
	}
	s.closing = true
	s.interrupt()
	if len(client.set) != 1 {
		t.Error("a read deadline is set while the client's end is waited for")
	}
}
