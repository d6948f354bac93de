package http1

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// refusing refuses what is sent to /refused, of which it reads a part if it is asked to.
func refusing(w *Response, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/refused") {
		_, _ = io.Copy(w, r.Body)
		return
	}
	if r.URL.RawQuery == "part" {
		_, _ = io.ReadFull(r.Body, make([]byte, 10))
	}
	w.WriteHeader(http.StatusForbidden)
}

// refused is the head of a request that is.
func refused(size int, more string) string {
	return "PUT /refused?" + more + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n"
}

// forbidden wants an answer, and to be told whether it is the last.
func (c *client) forbidden(what string, last bool) {
	c.tb.Helper()
	if res, body := c.reply(http.MethodPut); res.StatusCode != http.StatusForbidden || res.Close != last || body != "" {
		c.tb.Errorf("%s: %d, closes: %v, %q", what, res.StatusCode, res.Close, body)
	}
}

// served wants another request to be answered.
func (c *client) served(what string) {
	c.tb.Helper()
	c.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
	if res, body := c.reply(http.MethodPut); res.StatusCode != http.StatusOK || body != "abc" {
		c.tb.Errorf("%s: then %d, %q", what, res.StatusCode, body)
	}
}

// Who has sent only a part of a short body that nobody wants is answered at once. When
// the rest of it has come the connection is as good as before.
func TestRefusedBeforeItComes(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		_, dial := startEither(t, patient(refusing), secure)
		for name, row := range map[string]struct {
			size, first int
			more        string
		}{
			"nothing": {1, 0, ""}, "some": {20, 10, ""}, "read in part": {maxSkip, 10, "part"}, "much": {maxSkip, 1, ""}, "nearly all": {maxSkip, maxSkip - 1, "part"},
		} {
			c := dial()
			for range 3 {
				body := string(pattern(row.size))
				c.send(refused(row.size, row.more) + body[:row.first])
				c.forbidden(name, false)
				c.send(body[row.first:])
				c.served(name)
			}
			// A head that is not plain is none the worse for it.
			c.send("X" + refused(3, "")[1:])
			c.forbidden(name, false)
			c.send("abc")
			c.served(name)
		}
	}
}

// Who sends all that it has before it reads gets all of its answers, however many bodies
// lie between the requests. None of their bytes are a request.
func TestRefusedInOneGo(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		_, dial := startEither(t, patient(refusing), secure)
		for _, size := range []int{0, 1, len(get), readSize, maxSkip} {
			c := dial()
			body := strings.Repeat(get, size/len(get)+1)[:size]
			c.send(strings.Repeat(refused(size, "")+body, 3))
			for range 3 {
				c.forbidden(strconv.Itoa(size), false)
			}
			c.served(strconv.Itoa(size))
		}
	}
}

// A body that is too long to be read away, or of no known length, or whose client may
// send it or not, is the last that its connection has, as the answer says.
func TestRefusedIsLast(t *testing.T) {
	t.Parallel()
	s := start(t, patient(refusing))
	for name, lines := range map[string]string{
		"long":      "Content-Length: " + strconv.Itoa(maxSkip+1) + "\r\n\r\n",
		"chunks":    "Transfer-Encoding: chunked\r\n\r\n",
		"waits":     "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
		"last":      "Content-Length: 3\r\nConnection: close\r\n\r\n",
		"odd waits": "Content-Length: 3\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n",
	} {
		c := s.dial(t)
		c.send("PUT /refused HTTP/1.1\r\nHost: a\r\n" + lines)
		c.forbidden(name, true)
	}
	// Who was given leave sends it.
	c := s.dial(t)
	c.send("PUT /refused?part HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n")
	c.goOn("0123456789")
	c.forbidden("was given leave", false)
	c.send("0123456789")
	c.served("was given leave")
}

// A body that does not come is not waited for long, and one that ends too early is the
// end, and no request.
func TestRefusedNeverComes(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s, dial := startEither(t, patient(refusing), secure)
		stops, ends := dial(), dial()
		for _, c := range []*client{stops, ends} {
			c.send(refused(1+len(get), "") + get)
			c.forbidden("a part", false)
		}
		closeWrite(t, ends.Conn)
		if got := ends.rest(); got != "" {
			t.Errorf("then comes %q", got)
		}
		begun := time.Now()
		if got := stops.rest(); got != "" || time.Since(begun) > 2*lingerTime {
			t.Errorf("then comes %q, after %v", got, time.Since(begun))
		}
		until(t, "it is kept", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.conns) == 0
		})
	}
}

// As long as a body comes it is read away, slow as it is, whether another request may
// follow or the connection ends with it.
func TestRefusedComesSlowly(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"short": 0, "long": maxSkip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, patient(refusing)).dial(t)
			const pieces = 6
			c.send(refused(first+pieces*readSize, "") + string(pattern(first)))
			c.forbidden("slow", first > 0)
			begun := time.Now()
			tick := time.NewTicker(lingerTime / 4)
			defer tick.Stop()
			for range pieces {
				<-tick.C
				c.send(string(pattern(readSize)))
			}
			if took := time.Since(begun); took < lingerTime {
				t.Errorf("it came in %v", took)
			}
			if first == 0 {
				c.served("slow")
			} else if got := c.rest(); got != "" {
				t.Errorf("then comes %q", got)
			}
		})
	}
}

// What is left of a body is nothing to its handler's context, nor to Shutdown, which
// ends the connection behind it.
func TestRefusedIsOver(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context, 1)
	s := start(t, patient(func(w *Response, r *http.Request) {
		contexts <- r.Context()
		refusing(w, r)
	}))
	c := s.dial(t)
	c.send(refused(3, ""))
	c.forbidden("refused", false)
	within(t, "its context goes on", (<-contexts).Done())
	s.Shutdown()
	c.send("abc" + get)
	if got := c.rest(); got != "" {
		t.Errorf("then comes %q", got)
	}
	if err := s.ended(t); err != nil {
		t.Error(err)
	}
}

// The deadline for what was read away is none of the requests behind it.
func TestRefusedLeavesNoDeadline(t *testing.T) {
	t.Parallel()
	config := patient(refusing)
	c := start(t, config).dial(t)
	c.send(refused(3, "") + "abc")
	c.forbidden("refused", false)
	c.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
	<-time.After(lingerTime + short) // until it would have passed
	c.send("abc")
	if res, body := c.reply(http.MethodPut); res.StatusCode != http.StatusOK || body != "abc" {
		t.Errorf("%d, %q", res.StatusCode, body)
	}
}
