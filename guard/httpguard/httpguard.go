package httpguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// Fence admits tokens. guard/memory and stores/postgres have one.
type Fence interface {
	// Enter claims t, or checks that it is claimed, and returns an entry: no
	// newer claim returns until its Exit. Ctx bounds Enter alone. A refusal is
	// a *guard.RefusedError.
	Enter(ctx context.Context, t guard.Token) (guard.Entry, error)
}

// Config configures a Middleware.
type Config struct {
	// Resource names the resource that a request touches, and is required. An
	// error refuses the request: as the refusal that it wraps, or else as
	// guard.ErrUnsupported. It never reaches the client.
	Resource func(*http.Request) (string, error)
	// OpenMethods are the methods whose requests need no token, such as OPTIONS
	// for the preflights of browsers. A token that they carry is looked at
	// nevertheless. Defaults to none: every request needs one.
	OpenMethods []string
	// Wait bounds how long a request waits to be admitted, for older tokens to
	// leave. Defaults to 10 s.
	Wait time.Duration
	// Logger gets a line for each request that is not admitted. Defaults to
	// none.
	Logger *slog.Logger
}

// Middleware puts handlers behind a fence. It is safe for use by many
// goroutines.
type Middleware struct {
	fence  Fence
	config Config
}

// New returns a Middleware. It refuses a config without Resource, and a
// negative Wait.
func New(fence Fence, config Config) (*Middleware, error) {
	switch {
	case fence == nil:
		return nil, errors.New("httpguard: no fence")
	case config.Resource == nil:
		return nil, errors.New("httpguard: Config.Resource is not set")
	case config.Wait < 0:
		return nil, errors.New("httpguard: Config.Wait is negative")
	}
	if config.Wait == 0 {
		config.Wait = 10 * time.Second
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config.OpenMethods = slices.Clone(config.OpenMethods)
	return &Middleware{fence: fence, config: config}, nil
}

// Handler returns next behind the fence.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry, err := m.enter(r)
		if err != nil {
			m.refuse(w, r, err)
			return
		}
		if entry != nil {
			defer entry.Exit() // also when next panics
		}
		next.ServeHTTP(w, r)
	})
}

// enter admits r, and returns no entry if it needs none.
func (m *Middleware) enter(r *http.Request) (guard.Entry, error) {
	tokens, err := carrier.HeaderTokens(r.Header)
	if errors.Is(err, guard.ErrNoToken) && slices.Contains(m.config.OpenMethods, r.Method) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	resource, err := m.resource(r)
	if err != nil {
		return nil, err
	}
	token, err := guard.TokenFor(tokens, resource)
	if err != nil {
		return nil, err
	}
	if !reads(r.Method) {
		if err := token.MayWrite(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), m.config.Wait)
	defer cancel()
	return m.fence.Enter(ctx, token)
}

func (m *Middleware) resource(r *http.Request) (string, error) {
	resource, err := m.config.Resource(r)
	if err == nil {
		// Whatever is wrong with the name is not wrong with the token.
		if flaw := guard.ValidateResource(resource); flaw != nil {
			err = fmt.Errorf("resource %q of a request: %s", resource, flaw.Error())
		}
	}
	if err == nil {
		return resource, nil
	}
	if _, known := carrier.RefusalOf(err); known {
		return "", err
	}
	return "", &guard.RefusedError{Reason: fmt.Errorf("%w: %w", guard.ErrUnsupported, err)}
}

// reads reports whether a shared token may come with method.
func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
