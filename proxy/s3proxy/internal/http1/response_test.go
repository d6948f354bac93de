package http1

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// asked is the answer of a handler to a request, with all that the server sends until it
// closes the connection or has answered it and another.
func asked(t *testing.T, request string, handle func(w *Response, r *http.Request)) string {
	t.Helper()
	s := start(t, patient(func(w *Response, r *http.Request) {
		if r.URL.Path == "/next" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		handle(w, r)
	}))
	c := s.dial(t)
	c.send(request + "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	return withoutDates(c.rest())
}

func withoutDates(text string) string {
	lines := strings.SplitAfter(text, "\r\n")
	kept := lines[:0]
	for _, line := range lines {
		if !strings.HasPrefix(line, "Date: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// Whoever goes on says so.
const goesOn = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"

func TestAnswers(t *testing.T) {
	t.Parallel()
	write := func(length, body string) func(w *Response, r *http.Request) {
		return func(w *Response, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = io.WriteString(w, body)
		}
	}
	status := func(status int, length string) func(w *Response, r *http.Request) {
		return func(w *Response, r *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.WriteHeader(status)
			w.WriteHeader(http.StatusTeapot) // which is too late
			_, _ = io.WriteString(w, "abc")
		}
	}
	nothing := func(*Response, *http.Request) {}
	const head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
	const get10, alive10 = "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
	for name, row := range map[string]struct {
		request string
		handle  func(w *Response, r *http.Request)
		want    string
	}{
		"length":                {get, write("3", "abc"), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" + goesOn},
		"too little":            {get, write("4", "abc"), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"},
		"chunks":                {get, write("", "abc"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + goesOn},
		"no chunk":              {get, write("", ""), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + goesOn},
		"a wrong length":        {get, write("+3", "abc"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + goesOn},
		"nothing":               {get, nothing, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + goesOn},
		"HEAD":                  {head, write("3", "abc"), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + goesOn},
		"HEAD, no length":       {head, write("", "abc"), "HTTP/1.1 200 OK\r\n\r\n" + goesOn},
		"204":                   {get, status(http.StatusNoContent, "3"), "HTTP/1.1 204 No Content\r\n\r\n" + goesOn},
		"304":                   {get, status(http.StatusNotModified, "3"), "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n" + goesOn},
		"304, no length":        {get, status(http.StatusNotModified, ""), "HTTP/1.1 304 Not Modified\r\n\r\n" + goesOn},
		"an unknown status":     {get, status(599, "3"), "HTTP/1.1 599 \r\nContent-Length: 3\r\n\r\nabc" + goesOn},
		"1.0":                   {get10, write("3", "abc"), "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"},
		"1.0, no length":        {alive10, write("", "abc"), "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabc"},
		"1.0, keep-alive":       {alive10, write("3", "abc"), "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"},
		"1.0, keep-alive, HEAD": {"HEAD" + alive10[3:], write("", "abc"), "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n"},
		"closed by handler": {get, func(w *Response, r *http.Request) {
			w.Header().Set("Connection", "x, Close")
			write("3", "abc")(w, r)
		}, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"},
		"its own framing": {get, func(w *Response, r *http.Request) {
			w.Header()["Transfer-Encoding"] = []string{"chunked"}
			w.Header()["Connection"] = []string{"keep-alive"}
			write("3", "abc")(w, r)
		}, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" + goesOn},
		"two lengths": {get, func(w *Response, r *http.Request) {
			w.Header()["Content-Length"] = []string{"3", "4"}
			write("", "abc")(w, r)
		}, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + goesOn},
		"split": {get, func(w *Response, _ *http.Request) {
			w.Header()["A"] = []string{"b\r\nX: y\r\n\r\nHTTP/1.1 200 OK", " c\nd\t"}
			w.Header()["B: x\r\nC"] = []string{"y"}
			w.Header()[""] = []string{"y"}
			w.Header()["D "] = []string{"y"}
			w.WriteHeader(http.StatusNoContent)
		}, "HTTP/1.1 204 No Content\r\nA: b  X: y    HTTP/1.1 200 OK\r\nA: c d\r\n\r\n" + goesOn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := asked(t, row.request, row.handle); got != row.want {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

// A Date is set, unless the handler has one.
func TestDate(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, r *http.Request) {
		if r.URL.Path == "/own" {
			w.Header().Set("Date", "own")
		}
	}))
	c := s.dial(t)
	c.send(get)
	if res, _ := c.reply(http.MethodGet); len(res.Header["Date"]) != 1 {
		t.Errorf("%q", res.Header)
	} else if _, err := http.ParseTime(res.Header.Get("Date")); err != nil {
		t.Error(err)
	}
	c.send("GET /own HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := c.reply(http.MethodGet); len(res.Header["Date"]) != 1 || res.Header.Get("Date") != "own" {
		t.Errorf("%q", res.Header)
	}
}

// More than was declared is not sent, and whoever writes it learns of it.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(w *Response) (int64, error){
		"write":     func(w *Response) (int64, error) { n, err := io.WriteString(w, "abcd"); return int64(n), err },
		"read from": func(w *Response) (int64, error) { return w.ReadFrom(strings.NewReader("abcd")) },
		"limited":   func(w *Response) (int64, error) { return w.ReadFrom(io.LimitReader(strings.NewReader("abcd"), 4)) },
		"unlimited": func(w *Response) (int64, error) {
			return w.ReadFrom(io.LimitReader(strings.NewReader("abcd"), math.MaxInt64))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := asked(t, get, func(w *Response, _ *http.Request) {
				w.Header().Set("Content-Length", "5")
				_, _ = io.WriteString(w, "ab")
				if n, err := write(w); n != 0 || !errors.Is(err, http.ErrContentLength) {
					t.Errorf("%d, %v", n, err)
				}
				_, _ = io.WriteString(w, "xyz")
			})
			if want := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabxyz" + goesOn; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// What is written is whole and in order, however it is written and how much it is.
func TestSizes(t *testing.T) {
	t.Parallel()
	s := start(t, patient(func(w *Response, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Query().Get("size"))
		data := pattern(size)
		if r.URL.Query().Has("length") {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		switch r.URL.Path {
		case "/once":
			_, _ = w.Write(data)
		case "/pieces":
			for i := 0; len(data) > 0; i++ {
				n := min(i*1000%7001, len(data))
				if m, err := w.Write(data[:n]); m != n || err != nil {
					t.Error(m, err)
				}
				data = data[n:]
			}
		case "/reader":
			if n, err := w.ReadFrom(io.LimitReader(iotest.HalfReader(bytes.NewReader(data)), int64(size))); n != int64(size) || err != nil {
				t.Error(n, err)
			}
		}
	}))
	c := s.dial(t)
	for _, path := range []string{"/once", "/pieces", "/reader"} {
		for _, size := range []int{0, 1, 4096, heldSize - 200, heldSize - 10, heldSize, heldSize + 1, 3*heldSize + 5, 1 << 20} {
			for _, length := range []string{"", "&length"} {
				c.send("GET " + path + "?size=" + strconv.Itoa(size) + length + " HTTP/1.1\r\nHost: a\r\n\r\n")
				res, body := c.reply(http.MethodGet)
				if body != string(pattern(size)) || (res.ContentLength >= 0) != (length != "" || size == 0 && path == "/pieces") {
					t.Errorf("%s of %d%s: %d bytes, length %d", path, size, length, len(body), res.ContentLength)
				}
			}
		}
	}
}

func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 / 5)
	}
	return data
}

// What is short is held until the end, or Flush.
func TestHeld(t *testing.T) {
	t.Parallel()
	go1, go2 := make(chan struct{}), make(chan struct{})
	s := start(t, patient(func(w *Response, _ *http.Request) {
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "abc")
		if w.held == nil {
			t.Error("nothing is held")
		}
		w.Flush()
		if w.held != nil {
			t.Error("something is held")
		}
		<-go1
		_, _ = io.WriteString(w, "def")
		<-go2
	}))
	c := s.dial(t)
	c.send(get)
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != "abc" {
		t.Fatalf("%q, %v", got, err)
	}
	close(go1)
	close(go2)
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != "def" {
		t.Fatalf("%q, %v", got, err)
	}
}

// The kernel moves what comes from a socket: as much as was asked for, or less if it ends.
func TestReadFromSocket(t *testing.T) {
	t.Parallel()
	const size = 300_000
	for name, row := range map[string]struct {
		there    int
		declared int
		goesOn   bool
	}{"all": {size, size, true}, "less": {size - 1, size, false}, "more is there": {size + 9, size, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln := listen(t)
			defer ln.Close()
			store, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			from, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = store.Write(pattern(row.there))
				store.Close()
			}()
			got := asked(t, get, func(w *Response, _ *http.Request) {
				defer from.Close()
				w.Header().Set("Content-Length", strconv.Itoa(row.declared))
				n, err := w.ReadFrom(io.LimitReader(from, int64(row.declared)))
				if want := int64(min(row.there, row.declared)); n != want || err != nil {
					t.Errorf("%d, %v, want %d", n, err, want)
				}
			})
			want := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n" + string(pattern(min(row.there, size)))
			if row.goesOn {
				want += goesOn
			}
			if got != withoutDates(want) {
				t.Errorf("%d bytes, want %d", len(got), len(want))
			}
		})
	}
}
