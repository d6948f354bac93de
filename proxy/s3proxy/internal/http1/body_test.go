package http1

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// A client that asks for leave to send its body gets it when the body is first read.
func TestContinue(t *testing.T) {
	t.Parallel()
	const lenient = "HTTP/1.1 100 Continue\r\n\r\n"
	read := func(w *Response, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}
	const answer, closing = "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
	for name, row := range map[string]struct {
		request string
		handle  func(w *Response, r *http.Request)
		want    string
	}{
		"read":         {"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\nabc", read, lenient + answer + goesOn},
		"chunked":      {"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", read, lenient + answer + goesOn},
		"empty":        {"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", read, lenient + answer + goesOn},
		"1.0":          {"PUT / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", read, "HTTP/1.0 204 No Content\r\nConnection: close\r\n\r\n"},
		"not asked":    {"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", read, answer + goesOn},
		"another wish": {"PUT / HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 3\r\n\r\nabc", read, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		"not read": {"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", func(w *Response, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}, closing},
		"read after the answer began": {"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", func(w *Response, r *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			read(w, r)
		}, closing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := asked(t, row.request, row.handle); got != row.want {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

// A client that waits for leave is not kept waiting, and one that is not to send its body
// need not.
func TestContinueWaits(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(data)
	}))
	c := s.dial(t)
	for range 3 {
		c.send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
		c.goOn("abc")
		if _, body := c.reply(http.MethodPut); body != "abc" {
			t.Errorf("%q", body)
		}
	}
	c.send("PUT /refused HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if res, _ := c.reply(http.MethodPut); res.StatusCode != http.StatusForbidden || !res.Close {
		t.Errorf("%d, closes: %v", res.StatusCode, res.Close)
	}
	c.Close()
}

// A client that sends all of a large body before it reads gets its answer, though nobody
// wants the body, and then its connection ends.
func TestBodyUnread(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	for name, handle := range map[string]func(w *Response, r *http.Request){
		"nothing": func(w *Response, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"some": func(w *Response, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, size/8)
			w.WriteHeader(http.StatusForbidden)
		},
		"all, but too late": func(w *Response, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.Copy(io.Discard, r.Body)
		},
	} {
		for head, sent := range map[string]int{"Content-Length: 8388608\r\n\r\n": size, "Transfer-Encoding: chunked\r\n\r\n800000\r\n": size + 7} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := start(t, patient(handle)).dial(t)
				data := make([]byte, sent)
				copy(data[size:], "\r\n0\r\n\r\n")
				c.send("PUT / HTTP/1.1\r\nHost: a\r\n" + head)
				if _, err := c.Write(data); err != nil {
					t.Fatal(err)
				}
				c.send(get) // which is not answered: it would be of the body
				res, _ := c.reply(http.MethodPut)
				if res.StatusCode != http.StatusForbidden || !res.Close {
					t.Errorf("%d, closes: %v", res.StatusCode, res.Close)
				}
				if more := c.rest(); more != "" {
					t.Errorf("then came %q", more)
				}
			})
		}
	}
}

// Behind a body that was read comes the next request, and none of its bytes are the body's.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, r *http.Request) {
		body := io.Reader(r.Body)
		if r.URL.Path == "/bytes" {
			body = iotest.OneByteReader(body)
		}
		data, err := io.ReadAll(body)
		if n, again := r.Body.Read(make([]byte, 1)); err != nil || n != 0 || again != io.EOF {
			t.Errorf("%v, %d, %v", err, n, again)
		}
		sum := sha256.Sum256(data)
		_, _ = w.Write(sum[:])
	}))
	for _, path := range []string{"/all", "/bytes"} {
		for _, size := range []int{1, readSize - 60, readSize, readSize + 1, 100_000} {
			c := s.dial(t)
			body := pattern(size)
			var text bytes.Buffer
			for range 2 {
				text.WriteString("PUT " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n")
				text.Write(body)
			}
			sent := make(chan error, 1)
			go func() { _, err := c.Write(text.Bytes()); sent <- err }()
			want := sha256.Sum256(body)
			for range 2 {
				if _, got := c.reply(http.MethodPut); got != string(want[:]) {
					t.Errorf("%s: %d bytes came otherwise", path, size)
				}
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
		}
	}
}

// A body that ends too early is no whole one, and its connection ends.
func TestBodyCutOff(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"Content-Length: 5\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"} {
		s := start(t, patient(func(w *Response, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Errorf("%q is whole", head)
			}
			if r.Context().Err() == nil {
				t.Errorf("%q: the context goes on", head)
			}
			w.WriteHeader(http.StatusBadRequest)
		}))
		c := s.dial(t)
		c.send("PUT / HTTP/1.1\r\nHost: a\r\n" + head)
		closeWrite(t, c.Conn)
		if res, _ := c.reply(http.MethodPut); res.StatusCode != http.StatusBadRequest || !res.Close {
			t.Errorf("%q: %d, closes: %v", head, res.StatusCode, res.Close)
		}
	}
}

// Net/http takes no notice of a transfer encoding in HTTP/1.0, and the body would be the
// next request (RFC 9112, 6.1).
func TestNothingBehindHTTP10(t *testing.T) {
	t.Parallel()
	got := asked(t, "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", func(w *Response, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	if want := "HTTP/1.0 204 No Content\r\nConnection: close\r\n\r\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Refuse ends a Read that waits. The answer is sent, and the connection ends.
func TestRefuse(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, r *http.Request) {
		reading, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			_, _ = io.ReadFull(r.Body, make([]byte, 3))
			close(reading)
			_, err := r.Body.Read(make([]byte, 1))
			ended <- err
		}()
		<-reading
		w.Refuse()
		if err := <-ended; err == nil {
			t.Error("Read goes on")
		}
		if err := r.Context().Err(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	c := s.dial(t)
	c.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc")
	if res, _ := c.reply(http.MethodPut); res.StatusCode != http.StatusForbidden || !res.Close {
		t.Errorf("%d, closes: %v", res.StatusCode, res.Close)
	}
	if more := c.rest(); more != "" {
		t.Errorf("then came %q", more)
	}
}

// Another goroutine reads the body while the handler answers, as that of a transport may.
// Nothing of a 100 Continue comes in between.
func TestReadMeanwhile(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, r *http.Request) {
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
		}()
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "abc")
		w.Flush()
		_, _ = io.WriteString(w, "def")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}))
	for range 50 {
		c := s.dial(t)
		c.send("PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 20000\r\n\r\n")
		c.send(string(make([]byte, 20000)))
		got := strings.TrimPrefix(c.rest(), "HTTP/1.1 100 Continue\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "\r\n\r\nabcdef") {
			t.Fatalf("%q", got)
		}
	}
}

// A client that is still sending when its body is refused gets its answer as well.
func TestRefuseOfMuch(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	s := start(t, patient(func(w *Response, r *http.Request) {
		reading, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.CopyN(io.Discard, r.Body, size/8)
			close(reading)
			_, _ = io.Copy(io.Discard, r.Body)
		}()
		<-reading
		w.Refuse()
		<-ended
		w.WriteHeader(http.StatusForbidden)
	}))
	c := s.dial(t)
	c.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 8388609\r\n\r\n")
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if res, _ := c.reply(http.MethodPut); res.StatusCode != http.StatusForbidden || !res.Close {
		t.Errorf("%d, closes: %v", res.StatusCode, res.Close)
	}
	c.Close()
}
