package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/guard/httpguard"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func token(number int64) guard.Token {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: "secret", Issuer: "k3v9"}
}

func otherToken() guard.Token {
	t := token(34)
	t.Resource = "stock"
	return t
}

func shared(t guard.Token) guard.Token {
	t.Mode = guard.Shared
	return t
}

func newMemory(t *testing.T) *memory.Guard {
	t.Helper()
	g, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// claimed returns a fence at which tokens have been claimed.
func claimed(t *testing.T, tokens ...guard.Token) *memory.Guard {
	t.Helper()
	g := newMemory(t)
	for _, token := range tokens {
		entry, err := g.Enter(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		entry.Exit()
	}
	return g
}

// orders is the resource of every request but those below /error and /name.
func orders(r *http.Request) (string, error) {
	switch r.URL.Path {
	case "/error":
		return "", errors.New("dial tcp 10.0.0.7:5432: password of bob")
	case "/error/readonly":
		return "", &guard.RefusedError{Reason: guard.ErrReadOnly}
	case "/name/empty":
		return "", nil
	case "/name/control":
		return "or\nders", nil
	}
	return "orders", nil
}

func serve(t *testing.T, fence httpguard.Fence, config httpguard.Config, next http.HandlerFunc) *httptest.Server {
	t.Helper()
	if config.Resource == nil {
		config.Resource = orders
	}
	m, err := httpguard.New(fence, config)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(m.Handler(next))
	t.Cleanup(s.Close)
	return s
}

func request(t *testing.T, method, url string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range headers {
		r.Header.Add(carrier.Header, text)
	}
	return r
}

type reply struct {
	*http.Response
	body string
}

func do(t *testing.T, s *httptest.Server, r *http.Request) reply {
	t.Helper()
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response, string(text)}
}

func TestHeadIsRefusedWithoutBody(t *testing.T) {
	t.Parallel()
	s := serve(t, newMemory(t), httpguard.Config{}, func(http.ResponseWriter, *http.Request) { t.Error("handler ran") })
	got := do(t, s, request(t, http.MethodHead, s.URL))
	if got.StatusCode != http.StatusForbidden || got.body != "" {
		t.Errorf("got %d %q", got.StatusCode, got.body)
	}
}

func TestOpenMethods(t *testing.T) {
	t.Parallel()
	config := httpguard.Config{OpenMethods: []string{http.MethodOptions, http.MethodGet}}
	s := serve(t, claimed(t, token(34)), config, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	config.OpenMethods[0] = http.MethodPut // the middleware keeps its own
	for _, row := range []struct {
		method, header string
		status         int
	}{
		{http.MethodOptions, "", 204},
		{http.MethodGet, "", 204},
		{http.MethodHead, "", 403},
		{http.MethodPut, "", 403},
		{http.MethodPost, "", 403},
		{http.MethodGet, token(34).String(), 204},
		{http.MethodGet, token(33).String(), 412},
		{http.MethodGet, "42", 400},
		{http.MethodGet, strings.ReplaceAll(token(34).String(), "orders", "stock"), 403},
	} {
		r := request(t, row.method, s.URL)
		if row.header != "" {
			r.Header.Set(carrier.Header, row.header)
		}
		if got := do(t, s, r); got.StatusCode != row.status {
			t.Errorf("%s with token %q: %d, want %d", row.method, row.header, got.StatusCode, row.status)
		}
	}
}

type fenceFunc func(ctx context.Context, t guard.Token) (guard.Entry, error)

func (f fenceFunc) Enter(ctx context.Context, t guard.Token) (guard.Entry, error) { return f(ctx, t) }

func TestFenceThatFails(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.0.0.7:5432: password of bob")
	for name, row := range map[string]struct {
		err    error
		status int
		body   string
	}{
		"unreachable": {
			secret, 503, `{"code":"FenceUnavailable","reason":"the fence could not be entered in time"}`,
		},
		"not applied": {
			guard.WithOutcome(secret, guard.NotApplied), 503, `{"code":"FenceUnavailable","reason":"the fence could not be entered in time"}`,
		},
		"refusal that says more": {
			&guard.RefusedError{Reason: errors.Join(guard.ErrStale, secret), Token: token(33)}, 412,
			`{"code":"FenceTokenStale","reason":"stale token","resource":"orders"}`,
		},
		"not claimed": {
			&guard.RefusedError{Reason: guard.ErrUnclaimed, Token: token(33)}, 412,
			`{"code":"FenceTokenUnclaimed","reason":"token not claimed","resource":"orders"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fence := fenceFunc(func(context.Context, guard.Token) (guard.Entry, error) { return nil, row.err })
			s := serve(t, fence, httpguard.Config{}, func(http.ResponseWriter, *http.Request) { t.Error("handler ran") })
			got := do(t, s, request(t, http.MethodPut, s.URL, token(34).String()))
			if got.StatusCode != row.status || strings.TrimSpace(got.body) != row.body {
				t.Errorf("got  %d %s\nwant %d %s", got.StatusCode, got.body, row.status, row.body)
			}
			expectAnswer(t, got)
			if retry := got.Header.Get("Retry-After"); (retry != "") != (row.status == 503) {
				t.Errorf("retry after %q", retry)
			}
		})
	}
}

// The fence is given the request's context, and Wait at the most.
func TestContextOfTheFence(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		entered := 0
		ofClient, goAway := context.WithCancel(t.Context())
		fence := fenceFunc(func(ctx context.Context, _ guard.Token) (guard.Entry, error) {
			entered++
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > want {
				t.Errorf("Wait %v: fence has %v, %v", given, time.Until(deadline), ok)
			}
			goAway()
			if ctx.Err() == nil {
				t.Error("the client has gone away and the fence is still asked")
			}
			return nil, ctx.Err()
		})
		m, err := httpguard.New(fence, httpguard.Config{Resource: orders, Wait: given})
		if err != nil {
			t.Fatal(err)
		}
		r := request(t, http.MethodPut, "/", token(34).String()).WithContext(ofClient)
		m.Handler(nil).ServeHTTP(httptest.NewRecorder(), r)
		if entered != 1 {
			t.Errorf("entered %d times", entered)
		}
	}
}

func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	g := newMemory(t)
	inside, err := g.Enter(t.Context(), token(33))
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Exit()
	s := serve(t, g, httpguard.Config{Wait: time.Millisecond}, func(http.ResponseWriter, *http.Request) { t.Error("handler ran") })
	got := do(t, s, request(t, http.MethodPut, s.URL, token(34).String()))
	if got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	g := newMemory(t)
	for name, row := range map[string]struct {
		fence  httpguard.Fence
		config httpguard.Config
	}{
		"no fence":      {nil, httpguard.Config{Resource: orders}},
		"no resource":   {g, httpguard.Config{}},
		"negative wait": {g, httpguard.Config{Resource: orders, Wait: -1}},
	} {
		if m, err := httpguard.New(row.fence, row.config); err == nil || m != nil {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}
