package http1

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counted is a configuration that counts what is opened and closed.
func counted(handle func(w *Response, r *http.Request), opened, closed *atomic.Int64) Config {
	c := patient(nil)
	c.Open = func(net.Conn) Client {
		opened.Add(1)
		var once atomic.Bool
		return Client{Handler: handle, SendTimeout: time.Minute, Closed: func() {
			if once.Swap(true) {
				panic("it is closed twice")
			}
			closed.Add(1)
		}}
	}
	return c
}

// A connection that is idle ends with Shutdown at once, one that is answered then, and one
// that is new has its time to ask.
func TestShutdown(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int64
	waiting, release := make(chan struct{}), make(chan struct{})
	s := start(t, counted(func(w *Response, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(waiting)
			<-release
		}
		_, _ = io.WriteString(w, "abc")
	}, &opened, &closed))
	idle, active, asks, silent := s.dial(t), s.dial(t), s.dial(t), s.dial(t)
	idle.send(get)
	if res, _ := idle.reply(http.MethodGet); res.Close {
		t.Error("it closes the connection")
	}
	active.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n" + get)
	within(t, "it is not handled", waiting)
	until(t, "they are not accepted", func() bool { return opened.Load() >= 4 })
	begun := time.Now()
	s.Shutdown()
	if got := idle.rest(); got != "" {
		t.Errorf("the idle one is told %q", got)
	}
	if conn, err := net.Dial("tcp", s.addr); err == nil {
		conn.Close()
		t.Error("the listener is open")
	}
	asks.send(get + get)
	if res, body := asks.reply(http.MethodGet); body != "abc" || !res.Close {
		t.Errorf("%q, closes: %v", body, res.Close)
	}
	if got := asks.rest(); got != "" {
		t.Errorf("then comes %q", got)
	}
	close(release)
	if res, body := active.reply(http.MethodGet); body != "abc" || !res.Close {
		t.Errorf("%q, closes: %v", body, res.Close)
	}
	if got := active.rest(); got != "" {
		t.Errorf("then comes %q", got)
	}
	select {
	case err := <-s.done:
		t.Errorf("Serve has returned after %v: %v", time.Since(begun), err)
	default:
	}
	if got := silent.rest(); got != "" {
		t.Errorf("the silent one is told %q", got)
	}
	if took := time.Since(begun); took < newGrace/2 {
		t.Errorf("it had %v", took)
	}
	if err := s.ended(t); err != nil {
		t.Error(err)
	}
	if opened.Load() != 4 || closed.Load() != 4 {
		t.Errorf("%d opened, %d closed", opened.Load(), closed.Load())
	}
}

// Line ends behind a POST are no request that is waited for.
func TestShutdownBehindPost(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(*Response, *http.Request) {}))
	c := s.dial(t)
	c.send("POST / HTTP/1.1\r\nHost: a\r\n\r\n\r\n")
	c.reply(http.MethodPost)
	s.Shutdown()
	c.rest()
	if err := s.ended(t); err != nil {
		t.Error(err)
	}
}

// An answer that has begun without a word of it ends its connection all the same.
func TestShutdownAmidAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, patient(func(w *Response, _ *http.Request) {
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "abc")
		w.Flush()
		<-release
		_, _ = io.WriteString(w, "def")
	}))
	c := s.dial(t)
	c.send(get)
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	close(release)
	if res, body := c.reply(http.MethodGet); body != "abcdef" || res.Close {
		t.Errorf("%q, closes: %v", body, res.Close)
	}
	if got := c.rest(); got != "" {
		t.Errorf("then comes %q", got)
	}
	if err := s.ended(t); err != nil {
		t.Error(err)
	}
}

func TestShutdownBeforeServe(t *testing.T) {
	t.Parallel()
	s := New(patient(nil))
	s.Shutdown()
	if err := s.Serve(t.Context(), listen(t)); err != nil {
		t.Error(err)
	}
}

// The end of its context cuts all that Serve has, wherever it stands.
func TestCut(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int64
	waiting := make(chan struct{}, 2)
	s := start(t, counted(func(w *Response, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			waiting <- struct{}{}
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // as whoever has nobody to answer does
		case "/write":
			waiting <- struct{}{}
			for _, err := w.Write([]byte("x")); err == nil; _, err = w.Write(make([]byte, 1<<20)) {
			}
		}
	}, &opened, &closed))
	idle, active, writes, lingers, begun, silent := s.dial(t), s.dial(t), s.dial(t), s.dial(t), s.dial(t), s.dial(t)
	idle.send(get)
	idle.reply(http.MethodGet)
	active.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
	writes.send("GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
	lingers.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
	lingers.reply(http.MethodPut)
	begun.send("GET / HT")
	within(t, "it is not handled", waiting)
	within(t, "it is not handled", waiting)
	until(t, "they are not accepted", func() bool { return opened.Load() >= 6 })
	s.cut()
	if err := s.ended(t); err != nil {
		t.Error(err)
	}
	for _, c := range []*client{idle, active, lingers, begun, silent} {
		if got := c.rest(); got != "" {
			t.Errorf("it is told %q", got)
		}
	}
	if closed.Load() != 6 {
		t.Errorf("%d closed", closed.Load())
	}
}

// However Shutdown and requests fall together, each request that is handled is answered
// as a whole, and none on a connection that was told of its end.
func TestShutdownRace(t *testing.T) {
	t.Parallel()
	const clients = 30
	for range 10 {
		var opened, closed, handled atomic.Int64
		var all sync.WaitGroup
		s := start(t, counted(func(w *Response, _ *http.Request) {
			handled.Add(1)
			_, _ = io.WriteString(w, "abc")
		}, &opened, &closed))
		var answers atomic.Int64
		started := make(chan struct{}, clients)
		for range clients {
			all.Go(func() {
				answers.Add(askUntilEnd(t, s.addr, started))
			})
		}
		for range clients {
			within(t, "they do not begin", started)
		}
		s.Shutdown()
		all.Wait()
		if err := s.ended(t); err != nil {
			t.Error(err)
		}
		if answers.Load() != handled.Load() || opened.Load() != closed.Load() {
			t.Errorf("%d handled, %d answered; %d opened, %d closed", handled.Load(), answers.Load(), opened.Load(), closed.Load())
		}
	}
}

// askUntilEnd asks until the connection ends, and returns how many answers came. None may
// be a part.
func askUntilEnd(t *testing.T, addr string, started chan<- struct{}) (answers int64) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		started <- struct{}{}
		return 0
	}
	c := newClient(t, conn)
	defer c.Close()
	for {
		if _, err := io.WriteString(c, get); err != nil {
			return answers
		}
		if _, err := c.r.Peek(1); err != nil {
			return answers
		}
		res, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Errorf("a part of an answer: %v", err)
			return answers
		}
		if data, err := io.ReadAll(res.Body); err != nil || string(data) != "abc" {
			t.Errorf("%q, %v", data, err)
		}
		if answers++; answers == 1 {
			started <- struct{}{}
		}
		if res.Close {
			return answers
		}
	}
}

// Each of many connections that come and go at once with the server is closed once.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	for range 20 {
		var opened, closed atomic.Int64
		s := New(counted(func(*Response, *http.Request) {}, &opened, &closed))
		ln := listen(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for conn, err := net.Dial("tcp", ln.Addr().String()); err == nil; conn, err = net.Dial("tcp", ln.Addr().String()) {
					_, _ = io.WriteString(conn, get)
					_, _ = conn.Read(make([]byte, 1))
					conn.Close()
				}
			})
		}
		until(t, "they are not accepted", func() bool { return opened.Load() >= 20 })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		all.Wait()
		if opened.Load() != closed.Load() || len(s.conns) != 0 {
			t.Errorf("%d opened, %d closed, %d are left", opened.Load(), closed.Load(), len(s.conns))
		}
	}
}
