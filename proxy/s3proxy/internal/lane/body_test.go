package lane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// An answer that breaks off is an error, and never the end of its body.
func TestBreaksOff(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HANG UP", "HTTP/1.1 200 HANG UP", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nokHANG UP",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokHANG UP", "nonsense\r\n\r\nHANG UP",
		"HTTP/1.1 101 Switching Protocols\r\n\r\nHANG UP", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 9),
	} {
		s := script(t, answer)
		if got, err := ask(t, s.pool(t), http.MethodPut, nil); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: %q, %v", answer, got, err)
		}
	}
}

// A body that ends because its request's context does says so: whoever waits for the
// same by another request is not to take it for the store's failure.
func TestBodyOfEndedRequest(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"Content-Length: 3\r\n\r\no", "Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n"} {
		p := script(t, "HTTP/1.1 200 OK\r\n"+head).pool(t)
		ctx, cancel := context.WithCancel(t.Context())
		res, err := p.Do(request(ctx, http.MethodGet), nil)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 1)
		if _, err := io.ReadFull(res.Body, first); err != nil {
			t.Fatal(err)
		}
		cancel()
		if data, err := io.ReadAll(res.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %q, %v", head, data, err)
		}
		res.Body.Close()
	}
}

// What is read directly is what was not in the buffer, and counts.
func TestDirect(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 64<<10/16)
	s := script(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text), ok)
	p := s.pool(t)
	res, err := p.Do(request(t.Context(), http.MethodGet), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := res.Body.(*Body)
	var got strings.Builder
	direct := false
	for {
		from := b.Direct(10_000, 0)
		if from == nil {
			p := make([]byte, 100)
			n, err := b.Read(p)
			got.Write(p[:n])
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		direct = true
		n, err := io.Copy(&got, from)
		if err := b.Took(n, err); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != text || !direct {
		t.Errorf("%d bytes of %d, directly: %v", got.Len(), len(text), direct)
	}
	if _, err := ask(t, p, http.MethodGet, nil); err != nil || s.conns.Load() != 1 {
		t.Errorf("%v, %d connections", err, s.conns.Load())
	}
}

// Whoever closes a body ends a Read of it that waits, as net/http's transport may
// still be at; and nobody else gets its connection.
func TestCloseWhileReading(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
	} {
		s := script(t, answer, ok)
		p := s.pool(t)
		res, err := p.Do(request(t.Context(), http.MethodGet), nil)
		if err != nil {
			t.Fatal(err)
		}
		read, failed := make(chan struct{}), make(chan error)
		go func() {
			_, _ = io.ReadFull(res.Body, make([]byte, 2))
			close(read)
			_, err := res.Body.Read(make([]byte, 1))
			failed <- err
		}()
		<-read
		res.Body.Close()
		if err := <-failed; err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: %v", answer, err)
		}
		if got, err := ask(t, p, http.MethodPut, nil); err != nil || got != "200 ok" || s.conns.Load() != 2 {
			t.Errorf("%q, %v, %d connections", got, err, s.conns.Load())
		}
	}
}
