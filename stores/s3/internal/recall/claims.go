package recall

import (
	"context"
	"errors"
	"sync"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// maxClaims bounds what a store remembers of claimed tokens, and of marks. A
// forgotten one is claimed again, which changes nothing.
const maxClaims = 4096

// Claims remembers which tokens were claimed, and the newest mark of each
// resource that this store has seen: what that refuses need not be asked. The
// zero value is ready for use.
type Claims struct {
	mu      sync.Mutex
	done    map[guard.Token]layout.Grant
	running map[guard.Token]*flight
	marks   map[string]guard.Mark
}

// flight is a claim under way, which all who need it wait for.
type flight struct {
	landed chan struct{}
	grant  layout.Grant
	err    error
}

// Find returns the grant of token, if it was claimed. The error is a refusal by
// a mark that was seen since. A mark that is older than the claim refuses nobody: it was
// read before, and learned when the newer one had been forgotten, or the claim is gone
// from the bucket. The token is to be claimed again.
func (c *Claims) Find(token guard.Token) (layout.Grant, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, ok := c.done[token]
	m, seen := c.marks[token.Resource]
	if !ok || !seen {
		return g, ok, nil
	}
	err := guard.Claimed(m, token)
	if errors.Is(err, guard.ErrUnclaimed) {
		delete(c.done, token)
		return layout.Grant{}, false, nil
	}
	return g, true, err
}

// Forget forgets that token was claimed.
func (c *Claims) Forget(token guard.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.done, token)
}

// Learn remembers a mark unless a newer one is known.
func (c *Claims) Learn(resource string, m guard.Mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.marks == nil {
		c.marks = map[string]guard.Mark{}
	}
	old := c.marks[resource]
	if m.Generation < old.Generation ||
		m.Generation == old.Generation && (m.Writer < old.Writer || m.Writer == old.Writer && m.Reader < old.Reader) {
		return
	}
	makeRoom(c.marks)
	c.marks[resource] = m
}

// Once claims token, or waits for whoever is claiming it. A claim that ended
// with its caller's ctx says nothing about the others': one of them claims.
func (c *Claims) Once(ctx context.Context, token guard.Token, claim func(context.Context, guard.Token) (layout.Grant, error)) (layout.Grant, error) {
	for {
		c.mu.Lock()
		if g, ok := c.done[token]; ok {
			c.mu.Unlock()
			return g, nil
		}
		f, busy := c.running[token]
		if !busy {
			f = &flight{landed: make(chan struct{}), err: errors.New("claim panicked")}
			if c.running == nil {
				c.running, c.done = map[guard.Token]*flight{}, map[guard.Token]layout.Grant{}
			}
			c.running[token] = f
			c.mu.Unlock()
			defer c.land(token, f)
			f.grant, f.err = claim(ctx, token)
			return f.grant, f.err
		}
		c.mu.Unlock()
		select {
		case <-f.landed:
			if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
				return f.grant, f.err
			}
		case <-ctx.Done():
			return layout.Grant{}, guard.WithOutcome(ctx.Err(), guard.NotApplied)
		}
	}
}

func (c *Claims) land(token guard.Token, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, token)
	if f.err == nil {
		makeRoom(c.done)
		c.done[token] = f.grant
	}
	close(f.landed)
}

func makeRoom[K comparable, V any](m map[K]V) {
	for old := range m {
		if len(m) < maxClaims {
			return
		}
		delete(m, old)
	}
}
