package http1

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// open wants the connection to have neither more to read nor an end, for a while.
func (c *client) open(what string) {
	c.tb.Helper()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.tb.Errorf("%s: %v", what, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(limit))
}

// As long as a client sends a body that nobody wants its connection is whole: who
// relays it may cut both ways when one ends, and the answer would be lost.
func TestRefusedBodyEndsFirst(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		_, dial := startEither(t, patient(func(w *Response, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }), secure)
		for name, pieces := range map[string][2]string{
			"length":      {"Content-Length: 300000\r\n\r\n01234", string(make([]byte, 299_995))},
			"chunks":      {"Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n", "0\r\n\r\n"},
			"expectation": {"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", "01234"},
		} {
			c := dial()
			c.send("PUT / HTTP/1.1\r\nHost: a\r\n" + pieces[0])
			if res, _ := c.reply(http.MethodPut); res.StatusCode != http.StatusForbidden || !res.Close {
				t.Errorf("%s: %d, %v", name, res.StatusCode, res.Close)
			}
			c.open(name)
			c.send(pieces[1])
			begun := time.Now()
			if got := c.rest(); got != "" || time.Since(begun) >= lingerTime {
				t.Errorf("%s: %q, after %v", name, got, time.Since(begun))
			}
		}
		// An answer that ends with the connection needs its end.
		c := dial()
		c.send("PUT / HTTP/1.0\r\nContent-Length: 10\r\n\r\n01234")
		begun := time.Now()
		if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.0 403 ") || time.Since(begun) >= lingerTime {
			t.Errorf("HTTP/1.0: %q, after %v", got, time.Since(begun))
		}
	}
}

// A connection with TLS that Shutdown ends is told so, for one that just breaks off could
// have been cut by anybody.
func TestShutdownTellsTLS(t *testing.T) {
	t.Parallel()
	s, dial := startEither(t, patient(func(*Response, *http.Request) {}), true)
	c := dial()
	c.send(get)
	c.reply(http.MethodGet)
	until(t, "it is not idle", func() bool { return s.idle() == 1 })
	s.Shutdown()
	if n, err := c.Conn.(*tls.Conn).Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := s.ended(t); err != nil {
		t.Error(err)
	}
}

// idle counts the connections between two requests.
func (s *Server) idle() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.state.Load() == stateIdle {
			n++
		}
	}
	return n
}

// A deadline is moved on when so much of its time is gone that the rest would be too
// short, and when the rest would be too long; and no sooner.
func TestDeadline(t *testing.T) {
	t.Parallel()
	var set []time.Duration
	d := deadline{set: func(at time.Time) error {
		set = append(set, time.Until(at).Round(time.Minute))
		return nil
	}}
	d.by(64*time.Hour, time.Hour)
	d.by(64*time.Hour, time.Hour) // is as it should be
	d.by(65*time.Hour-time.Minute, time.Hour)
	d.by(66*time.Hour, time.Hour)
	d.within(100 * time.Hour)
	d.within(110 * time.Hour) // has still 3/4
	d.within(50 * time.Hour)
	d.past()
	d.within(50 * time.Hour)
	want := []time.Duration{64 * time.Hour, 66 * time.Hour, 100 * time.Hour, 50 * time.Hour, 0, 50 * time.Hour}
	if len(set) != len(want) {
		t.Fatal(set)
	}
	for i, at := range want {
		if at != 0 && set[i] != at || at == 0 && set[i] >= 0 {
			t.Errorf("%d: %v, want %v", i, set[i], at)
		}
	}
}
