package httpguard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
	"github.com/fenceproxy/fenceproxy/guard/httpguard"
)

// A newer request waits until the older one's handler has returned, and the
// older client's next request is refused.
func TestFenceIsHeldWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	g := newMemory(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	var log bytes.Buffer // written under the fence alone
	s := serve(t, g, httpguard.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		text := r.Header.Get(carrier.Header)
		if text == token(33).String() {
			close(inside)
			<-leave
		}
		fmt.Fprintln(&log, text)
	})
	var all sync.WaitGroup
	put := func(number int64) {
		all.Go(func() {
			if got := do(t, s, request(t, http.MethodPut, s.URL, token(number).String())); got.StatusCode != http.StatusOK {
				t.Errorf("token %d: %d %s", number, got.StatusCode, got.body)
			}
		})
	}
	put(33)
	<-inside
	put(34)
	for g.Mark("orders").Writer < 34 { // raised when 34 begins to wait
		if t.Context().Err() != nil {
			t.Fatal("34 did not come to the fence")
		}
	}
	if got := do(t, s, request(t, http.MethodPut, s.URL, token(33).String())); got.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("33 while 34 waits: %d %s", got.StatusCode, got.body)
	}
	close(leave)
	all.Wait()
	if want := token(33).String() + "\n" + token(34).String() + "\n"; log.String() != want {
		t.Errorf("handlers ended in order\n%swant\n%s", &log, want)
	}
}

func TestPanicEndsTheEntry(t *testing.T) {
	t.Parallel()
	g := newMemory(t)
	s := serve(t, g, httpguard.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	})
	if response, err := s.Client().Do(request(t, http.MethodPut, s.URL+"/panic", token(33).String())); err == nil {
		_ = response.Body.Close()
		t.Errorf("a handler that panics answered %d", response.StatusCode)
	}
	if got := do(t, s, request(t, http.MethodPut, s.URL, token(34).String())); got.StatusCode != http.StatusOK {
		t.Errorf("34 after 33 panicked: %d %s", got.StatusCode, got.body)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	m, err := httpguard.New(claimed(t, token(34)), httpguard.Config{
		Resource: orders, Logger: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	h.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodPut, "/", token(34).String()))
	if lines.Len() > 0 {
		t.Errorf("an admitted request is logged: %s", &lines)
	}
	h.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodPut, "/", token(33).String()))
	for _, want := range []string{"not admitted", "method=PUT", "resource=orders", `presented="mode=x number=33 `, "writer=34", "stale token"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("%s does not say %q", &lines, want)
		}
	}
}

// ledger is a guarded resource at the other end of HTTP: PUT claims, POST adds
// a value.
type ledger struct {
	server *httptest.Server
	made   atomic.Int64
	mu     sync.Mutex
	values map[string][]string
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{values: map[string][]string{}}
	resource := func(r *http.Request) (string, error) { return r.URL.Query().Get("resource"), nil }
	l.server = serve(t, newMemory(t), httpguard.Config{Resource: resource}, func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.Method == http.MethodPost {
			l.mu.Lock()
			defer l.mu.Unlock()
			name := r.URL.Query().Get("resource")
			l.values[name] = append(l.values[name], string(value))
		}
	})
	return l
}

func (l *ledger) send(ctx context.Context, method string, t guard.Token, value string) error {
	r, err := http.NewRequestWithContext(ctx, method, l.server.URL+"/?resource="+url.QueryEscape(t.Resource), strings.NewReader(value))
	if err != nil {
		return err
	}
	r.Header.Set(carrier.Header, t.String())
	response, err := l.server.Client().Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	var told struct {
		Code string `json:"code"`
	}
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil {
		return fmt.Errorf("read answer of status %d: %w", response.StatusCode, err)
	}
	if refusal, ok := carrier.RefusalByCode(told.Code); ok && refusal.Status == response.StatusCode {
		return &guard.RefusedError{Reason: refusal.Reason, Token: t}
	}
	return fmt.Errorf("status %d, code %q", response.StatusCode, told.Code)
}

func (l *ledger) NewResource(context.Context) (string, error) {
	return fmt.Sprintf("ledger/%d", l.made.Add(1)), nil
}

func (l *ledger) Claim(ctx context.Context, t guard.Token) error {
	method := http.MethodPut
	if t.Mode == guard.Shared {
		method = http.MethodGet
	}
	return l.send(ctx, method, t, "")
}

func (l *ledger) Write(ctx context.Context, t guard.Token, value string) error {
	return l.send(ctx, http.MethodPost, t, value)
}

func (l *ledger) Written(_ context.Context, resource string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.values[resource]...), nil
}

func TestMiddlewareConforms(t *testing.T) {
	t.Parallel()
	guardtest.Exercise(t, newLedger(t))
}
