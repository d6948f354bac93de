package relay

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// oldStandIn is one before PostgreSQL 16, where something goes behind the function
// calls of a session that may not write.
func oldStandIn() *standIn {
	s := newStandIn("", false)
	s.version = "15.1"
	return s
}

// TestCallSegments: a function call is relayed wherever it is cut, and however long
// it is, also if something goes behind it.
func TestCallSegments(t *testing.T) {
	t.Parallel()
	r := standInSession(t, Config{}, oldStandIn())
	var stream []byte
	call := encoded(t, &pgproto3.FunctionCall{Function: 1374, ArgFormatCodes: []uint16{0}, Arguments: [][]byte{[]byte("seven")}})
	for cut := 1; cut < len(call); cut++ {
		r.sendTaken(t, call[:cut])
		r.sendTaken(t, call[cut:])
		stream = append(stream, call...)
		r.wants(t, r.standIn.direct(stream))
	}
	r.finish(t, testLimit)
	if r.standIn.unfenced > 0 {
		t.Error("something was committed unchecked")
	}
}

// TestLongCalls: those that must have come as a whole are bounded by MaxMessage,
// others are of any size.
func TestLongCalls(t *testing.T) {
	t.Parallel()
	call := func(size int) []byte {
		return encoded(t, &pgproto3.FunctionCall{Function: 1374, Arguments: [][]byte{bytes.Repeat([]byte("x"), size)}})
	}
	for name, server := range map[string]*standIn{"old": oldStandIn(), "new": newStandIn("", false), "fenced": newStandIn(fencedToken, false)} {
		s := newRelaying(Config{})
		s.config.MaxMessage = 4 * stream.BufferSize
		r := startAnswered(t, s, s.link(), server, socketPair, atOnce)
		said := call(3 * stream.BufferSize)
		atOnce(r.client, said)
		r.wants(t, server.direct(said))
		tooLong := call(5 * stream.BufferSize)
		go atOnce(r.client, tooLong)
		if name == "old" {
			<-r.heard
			if !bytes.Contains(r.received(), []byte("C54000\x00")) {
				t.Errorf("%s: the client gets %q", name, short(r.received()))
			}
		} else {
			r.wants(t, server.direct(append(said, tooLong...)))
		}
		r.finish(t, testLimit)
	}
}
