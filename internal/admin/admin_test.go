package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serving is a server that runs.
type serving struct {
	t    *testing.T
	addr string
	stop context.CancelFunc
	done chan error
}

func serve(t *testing.T, c Config) *serving {
	t.Helper()
	if c.Ready == nil {
		c.Ready = NewReadiness(func(context.Context) error { return nil })
	}
	if c.Gatherer == nil {
		c.Gatherer = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	server, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &serving{t: t, addr: ln.Addr().String(), stop: stop, done: make(chan error, 1)}
	go func() { s.done <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *serving) get(path string) (int, string) {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Get("http://" + s.addr + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (s *serving) want(path string, status int, words string) {
	s.t.Helper()
	if got, text := s.get(path); got != status || !strings.Contains(text, words) {
		s.t.Errorf("%s: %d %q, want %d %q", path, got, text, status, words)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "fenceproxy_tests_total", Help: "Tests."})
	registry.MustRegister(counter)
	counter.Add(3)
	s := serve(t, Config{Gatherer: registry})
	s.want("/healthz", 200, "ok\n")
	s.want("/readyz", 200, "ok\n")
	s.want("/metrics", 200, "fenceproxy_tests_total 3")
	s.want("/", 200, "/metrics")
	s.want("/nothing", 404, "")
	s.want("/debug/pprof/", 404, "")
	s.want("/debug/pprof/cmdline", 404, "")

	s = serve(t, Config{PProf: true})
	s.want("/debug/pprof/", 200, "goroutine")
	s.want("/debug/pprof/goroutine?debug=1", 200, "goroutine profile")
}

func TestNewWantsAll(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil {
		t.Error("no error")
	}
}

// However many ask, the servers behind are asked once, and again a second later.
func TestReadinessIsShared(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	down := atomic.Bool{}
	down.Store(true)
	ready := NewReadiness(func(context.Context) error {
		asked.Add(1)
		if down.Load() {
			return errors.New("db:5432: connection refused")
		}
		return nil
	})
	ready.fresh = time.Hour
	s := serve(t, Config{Ready: ready})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { s.want("/readyz", 503, "db:5432: connection refused\n") })
	}
	all.Wait()
	down.Store(false)
	s.want("/readyz", 503, "refused")
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	ready.Reset()
	s.want("/readyz", 200, "ok")
	ready.mu.Lock()
	ready.fresh = 0
	ready.mu.Unlock()
	down.Store(true)
	s.want("/readyz", 503, "refused")
}

// Once ended it says so at once, whatever was found before or is being asked.
func TestReadinessEnds(t *testing.T) {
	t.Parallel()
	asking, answer := make(chan struct{}, 2), make(chan struct{})
	ready := NewReadiness(func(context.Context) error { asking <- struct{}{}; <-answer; return nil })
	s := serve(t, Config{Ready: ready})
	var early sync.WaitGroup
	early.Go(func() { s.want("/readyz", 503, "shutting down\n") })
	<-asking
	ready.End(errors.New("shutting down"))
	s.want("/readyz", 503, "shutting down\n")
	close(answer)
	early.Wait()
	s.want("/readyz", 503, "shutting down\n")
	s.want("/healthz", 200, "ok")
}

// A server that hangs makes /readyz say so in time.
func TestReadinessHasALimit(t *testing.T) {
	t.Parallel()
	ready := NewReadiness(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	ready.limit = time.Millisecond
	s := serve(t, Config{Ready: ready})
	s.want("/readyz", 503, "deadline")
	s.want("/healthz", 200, "ok")
}

// Serve ends with its context, whatever connections are open.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	server, err := New(Config{
		Ready: NewReadiness(func(context.Context) error { return nil }), Gatherer: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, ln) }()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	ln.Close()
	if err := server.Serve(t.Context(), ln); err == nil {
		t.Error("no error of a listener that is closed")
	}
}
