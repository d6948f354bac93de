package s3proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A drain lets what is under way end, takes nothing new, and then Serve returns.
func TestDrain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	const size = 4 << 20
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", size, carrying(t, token(33)))
	if _, err := conn.Write(make([]byte, size/2)); err != nil {
		t.Fatal(err)
	}
	idle := p.dial(t)
	idle.head(p, http.MethodGet, "/", 0, nil)
	if status, _ := idle.answer(); status != 200 {
		t.Fatal(status)
	}
	eventually(t, "the upload has begun", func() bool { return gauge(t, p.metrics.inFlight) == 1 })
	drained := make(chan error)
	go func() { drained <- p.Shutdown(t.Context()) }()
	idle.ended()
	if err := p.Ready(t.Context()); err == nil {
		t.Error("ready while it drains")
	}
	if conn, err := net.Dial("tcp", p.addr); err == nil {
		conn.Close()
		t.Error("it takes connections while it drains")
	}
	if _, err := conn.Write(make([]byte, size-size/2)); err != nil {
		t.Fatal(err)
	}
	if status, code := conn.answer(); status != 200 {
		t.Errorf("the upload: %d %s", status, code)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	conn.ended()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Serve(t.Context(), ln); !errors.Is(err, errDraining) {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	if stat, err := e.bare.StatObject(t.Context(), e.bucket, "k", minio.StatObjectOptions{}); err != nil || stat.Size != size+64 {
		t.Errorf("stored: %+v, %v", stat, err)
	}
}

// A drain that takes too long cuts what is left, which has stored nothing.
func TestDrainTooLong(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(33)), e.bucket, "other", "v") // so that no claim is cut
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", 4<<20, carrying(t, token(33)))
	if _, err := conn.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the upload has begun", func() bool { return gauge(t, p.metrics.inFlight) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	conn.ended()
	if _, err := e.bare.StatObject(t.Context(), e.bucket, "k", minio.StatObjectOptions{}); err == nil {
		t.Error("something was stored")
	}
	if !strings.Contains(p.log.String(), "drained for too long") {
		t.Error(p.log.String())
	}
}

// Requests that come after a reload are served by the new configuration, on the
// same connections, and those before by the old one.
func TestReload(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", 4<<20, carrying(t, token(33)))
	if _, err := conn.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the upload has begun", func() bool { return gauge(t, p.metrics.inFlight) == 1 })
	app := p.app(t, token(33))
	put(t, app, e.bucket, "other", "v")
	c := e.config()
	c.Clients = c.Clients[1:]
	if err := p.Reload(c); err != nil {
		t.Fatal(err)
	}
	_, err := tryPut(t, app, e.bucket, "other", "v")
	refused(t, "a client that is no more", err, 403, "InvalidAccessKeyId")
	expectValue(t, p.client(t, readerKey, readerSecret), e.bucket, "other", "v")
	if _, err := conn.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if status, code := conn.answer(); status != 200 {
		t.Errorf("the upload: %d %s", status, code)
	}
	c.Clients = nil
	if err := p.Reload(c); err == nil {
		t.Error("a configuration without clients was taken")
	}
	c = e.config()
	c.IdleTimeout = time.Hour
	if err := p.Reload(c); err == nil {
		t.Error("another IdleTimeout was taken")
	}
	expectValue(t, p.client(t, readerKey, readerSecret), e.bucket, "other", "v")
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s, err := New(e.config())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, ln) }()
	p := &proxy{Server: s, addr: ln.Addr().String()}
	put(t, p.app(t, token(33)), e.bucket, "other", "v") // so that no claim is cut
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", 4<<20, carrying(t, token(33)))
	if _, err := conn.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the upload has begun", func() bool { return s.live.Load() == 1 })
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	conn.ended()
	if _, err := e.bare.StatObject(t.Context(), e.bucket, "k", minio.StatObjectOptions{}); err == nil {
		t.Error("something was stored")
	}

	ln, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := s.Serve(t.Context(), ln); err == nil {
		t.Error("a listener that is closed is no error")
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	server := testenv.StartS3(t)
	e := &env{store: server, bucket: "any"}
	p := e.start(t)
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	server.Kill(t)
	if err := p.Ready(t.Context()); err == nil {
		t.Error("ready without a store")
	}
	_, err := tryPut(t, p.app(t, token(33)), "any", "k", "v")
	refused(t, "put without a store", err, 503, "FenceUnavailable")
	_, err = get(t, p.app(t), "any", "k", minio.GetObjectOptions{})
	refused(t, "get without a store", err, 503, "FenceUnavailable")
	server.Restart(t)
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// One line tells of a refusal, with all that one wants to know and nothing that
// is secret.
func TestRefusalLine(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(34)), e.bucket, "k", "v")
	p.do(t, http.MethodPut, "/"+e.bucket+"/k?x-id=secret", "v", carrying(t, token(33)))
	var line string
	for l := range strings.Lines(p.log.String()) {
		if strings.Contains(l, "refused") {
			if line != "" {
				t.Errorf("two lines: %s%s", line, l)
			}
			line = l
		}
	}
	for _, want := range []string{
		"level=WARN", "client=127.0.0.1:", "operation=PutObject", "bucket=" + e.bucket, "key=k", "access_key=app", "code=FenceTokenStale",
		`reason="stale token"`, "resource=orders", "number=33", `mark="generation=0 writer=34 reader=0 issuer=i"`, "request=",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is not in %s", want, line)
		}
	}
	if strings.Contains(line, "secret") || strings.Contains(line, ":h:") || strings.Contains(line, "holder") {
		t.Error(line)
	}
}
