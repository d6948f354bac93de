package zkconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
)

// FuzzFrames: however the bytes of a stream are cut, its frames are the same.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x14aaaaaaaaaaaaaaaaaaaa\x00\x00"), uint8(3))
	f.Add([]byte("\xff\xff\xff\xffabc"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		var whole, parts [][]byte
		var one, many frames
		one.feed(stream, func(head []byte) { whole = append(whole, bytes.Clone(head)) })
		for rest := stream; len(rest) > 0; {
			n := min(int(step%8)+1, len(rest))
			many.feed(rest[:n], func(head []byte) { parts = append(parts, bytes.Clone(head)) })
			rest = rest[n:]
		}
		if len(whole) != len(parts) {
			t.Fatalf("%d frames at once, %d in parts", len(whole), len(parts))
		}
		for i := range whole {
			if !bytes.Equal(whole[i], parts[i]) || len(whole[i]) > headSize {
				t.Errorf("frame %d: %q, in parts %q", i, whole[i], parts[i])
			}
		}
	})
}

// opened is a session as a server has just greeted it.
func opened(t *testing.T, sent time.Time) *Session {
	t.Helper()
	s := newSession(Config{Servers: []string{"server"}, TTL: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { s.End(ErrExpired) })
	s.greeted(7, 12*time.Second, sent)
	return s
}

// TestSignsOfLife: the deadline counts from before the last request that the
// leader has seen was sent; a member that is cut off from the leader answers
// pings and reads all the same.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	start := time.Now()
	s := opened(t, start)
	if got := s.Deadline(); !got.Equal(start.Add(8 * time.Second)) {
		t.Fatalf("deadline %v after the start, want 2/3 of what the server granted", got.Sub(start))
	}
	const getData, ping, getChildren2, setWatches, setAuth = 4, 11, 12, 101, 100
	for _, op := range []int32{getData, ping, getChildren2, setWatches, setAuth} {
		if s.answered(request{op: op, sent: start.Add(time.Second)}); !s.Deadline().Equal(start.Add(8 * time.Second)) {
			t.Errorf("operation %d moves the deadline", op)
		}
	}
	for i, op := range []int32{opCreate, opDelete, opSetData, opSync, opMulti, opCreateContainer} {
		sent := start.Add(time.Duration(i+1) * time.Millisecond)
		if s.answered(request{op: op, sent: sent}); !s.Deadline().Equal(sent.Add(8 * time.Second)) {
			t.Errorf("operation %d does not move the deadline", op)
		}
	}
	at := s.Deadline()
	if s.answered(request{op: opSync, sent: start}); !s.Deadline().Equal(at) {
		t.Error("an answer that was overtaken moves the deadline back")
	}
}

// TestLateAnswer: a session that was reported lost stays so (CURATOR-206).
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	s := opened(t, time.Now().Add(-8*time.Second))
	s.ExpireIfDue()
	if s.Over() == nil {
		t.Fatal("not lost at its deadline")
	}
	at := s.Deadline()
	s.answered(request{op: opSync, sent: time.Now()})
	s.greeted(7, time.Hour, time.Now())
	if s.Over() == nil || !s.Deadline().Equal(at) || s.Join() {
		t.Error("an answer brought the session back")
	}
}

// TestOtherSession: the client opens another session in place of one that has
// expired; its locks are lost.
func TestOtherSession(t *testing.T) {
	t.Parallel()
	for _, id := range []int64{0, 8} {
		s := opened(t, time.Now())
		s.greeted(7, 12*time.Second, time.Now())
		if s.Over() != nil {
			t.Fatal("lost when it was renewed")
		}
		s.greeted(id, 12*time.Second, time.Now())
		le := session.NewLease(s.Life, "r", guard.Exclusive, func() {})
		if err := le.Err(); !errors.Is(err, locks.ErrLost) {
			t.Errorf("session %d in its place: %v", id, err)
		}
	}
}

func frame(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestFramesOfNothing(t *testing.T) {
	t.Parallel()
	var f frames
	n := 0
	f.feed(append(frame(), frame('a')...), func([]byte) { n++ })
	if n != 2 {
		t.Errorf("%d frames", n)
	}
}
