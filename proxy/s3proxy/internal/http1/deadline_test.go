package http1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// short is a time that passes in a test.
const short = 100 * time.Millisecond

// Who is slow with a head, or asks nothing, is cut off without an answer.
func TestSilentClients(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		header, idle time.Duration
		send         string
		answers      int // before
	}{
		"says nothing":            {short, time.Hour, "", 0},
		"begins":                  {short, time.Hour, "GET / HTTP/1.1\r\nHost: a\r\n", 0},
		"begins another":          {short, time.Hour, get + "GET / HTTP/1.1\r\nHost: a\r\n", 1},
		"is idle":                 {time.Hour, short, get, 1},
		"ends lines after a POST": {time.Hour, short, "POST / HTTP/1.1\r\nHost: a\r\n\r\n\r\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := patient(func(*Response, *http.Request) {})
			config.HeaderTimeout, config.IdleTimeout = row.header, row.idle
			c := start(t, config).dial(t)
			c.send(row.send)
			for range row.answers {
				if res, _ := c.reply(http.MethodGet); res.StatusCode != http.StatusOK {
					t.Error(res.Status)
				}
			}
			if more := c.rest(); more != "" {
				t.Errorf("it is answered %q", more)
			}
		})
	}
}

// A body that does not come in time is told apart from one that ends, and its client is
// answered.
func TestReadWithin(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, r *http.Request) {
		w.ReadWithin(short)
		if data, err := io.ReadAll(r.Body); string(data) != "abc" || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q, %v", data, err)
		}
		if err := r.Context().Err(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusRequestTimeout)
	}))
	for _, head := range []string{"Content-Length: 5\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc"} {
		c := s.dial(t)
		c.send("PUT / HTTP/1.1\r\nHost: a\r\n" + head)
		if res, _ := c.reply(http.MethodPut); res.StatusCode != http.StatusRequestTimeout || !res.Close {
			t.Errorf("%d, closes: %v", res.StatusCode, res.Close)
		}
		c.Close()
	}
}

// A client that takes nothing of an answer is given up in time.
func TestSendWithin(t *testing.T) {
	t.Parallel()
	const size = 256 << 20 // more than all buffers on the way
	write := func(w *Response) error {
		var err error
		for data := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(data)
		}
		return err
	}
	for name, row := range map[string]struct {
		timeout time.Duration
		send    func(w *Response) error
	}{
		"SendTimeout": {short, write},
		"SendWithin": {time.Hour, func(w *Response) error {
			w.SendWithin(short)
			return write(w)
		}},
		"ReadFrom": {short, func(w *Response) error {
			_, err := w.ReadFrom(io.LimitReader(zeros{}, size))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, closed := make(chan error, 1), make(chan struct{})
			config := patient(nil)
			config.Open = func(net.Conn) Client {
				return Client{SendTimeout: row.timeout, Closed: func() { close(closed) }, Handler: func(w *Response, _ *http.Request) {
					w.Header().Set("Content-Length", "268435456")
					failed <- row.send(w)
				}}
			}
			c := start(t, config).dial(t)
			c.send(get)
			if err := within(t, "it still sends", failed); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			within(t, "the connection is still open", closed)
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// What is left to be sent when the handler has returned has its time, and no more.
func TestHeldOfStuck(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	config := patient(nil)
	config.Open = func(accepted net.Conn) Client {
		_ = accepted.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return Client{SendTimeout: short, Closed: func() { close(closed) }, Handler: func(w *Response, _ *http.Request) {
			_ = accepted.SetWriteDeadline(time.Now().Add(short))
			for data := make([]byte, 1<<20); ; { // until no more goes in
				if _, err := accepted.Write(data); err != nil {
					break
				}
			}
			_, _ = io.WriteString(w, "held")
			w.SendWithin(time.Hour) // for what the handler sends itself
		}}
	}
	start(t, config).dial(t).send(get)
	within(t, "the connection is still open", closed)
}

// A deadline of one request does not cut the next.
func TestDeadlinesLeftOver(t *testing.T) {
	t.Parallel()
	const short = 5 * short // in which a client that does its part has done it
	s := start(t, patient(func(w *Response, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.Flush()
			<-time.After(2 * short)
			w.ReadWithin(time.Minute)
		} else {
			w.ReadWithin(short)
			w.SendWithin(short)
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(data)
	}))
	c := s.dial(t)
	for range 2 {
		c.send("PUT /short HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		if _, body := c.reply(http.MethodPut); body != "abc" {
			t.Errorf("%q", body)
		}
		<-time.After(2 * short) // until its deadlines have passed
		c.send("PUT /short HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
		c.goOn("abc")
		if _, body := c.reply(http.MethodPut); body != "abc" {
			t.Errorf("%q", body)
		}
	}
	c.send("PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
	<-time.After(2 * short)
	c.send("bc")
	if _, body := c.reply(http.MethodPut); body != "abc" {
		t.Errorf("%q", body)
	}
}

// Whoever looks at the client while the kernel moves bytes moves the deadline on meanwhile.
func TestSendWithinMeanwhile(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, _ *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		w.SendWithin(time.Minute)
		looking := make(chan struct{})
		go func() {
			defer close(looking)
			for range 100 {
				w.SendWithin(time.Minute)
				w.Owes()
			}
		}()
		if _, err := w.ReadFrom(io.LimitReader(zeros{}, 1_000_000)); err != nil {
			t.Error(err)
		}
		<-looking
	}))
	c := s.dial(t)
	c.send(get)
	if _, body := c.reply(http.MethodGet); len(body) != 1_000_000 {
		t.Error(len(body))
	}
}
