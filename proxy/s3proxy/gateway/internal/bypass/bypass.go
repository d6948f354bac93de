// Package bypass knows the writes that go past the fence, so that they are over before
// the fence is put up where they write.
package bypass

import (
	"context"
	"errors"
	"sync"
)

// errCut ends writes that were waited for too long.
var errCut = errors.New("the key is being fenced")

// Gate is what every write of a key that is not fenced goes through. The gateways that
// follow one another in a process have one, for a request of an earlier one may still be
// under way, or only begin to write. The zero value is open.
type Gate struct {
	mu     sync.Mutex
	fenced func(bucket, key string) bool
	inside map[*Write]struct{}
}

// Write is one that is under way.
type Write struct {
	// Bucket and Key are where it writes; if Key is "" that may be anywhere in the bucket.
	Bucket, Key string

	gate *Gate
	ctx  context.Context //nolint:containedctx // the write's own, for those who send it
	end  context.CancelCauseFunc
	done chan struct{}
}

// Enter lets a write in, which is under way until its End, or Over; false if it writes
// what is fenced, or about to be.
func (g *Gate) Enter(ctx context.Context, bucket, key string) (*Write, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fenced != nil && g.fenced(bucket, key) {
		return nil, false
	}
	w := &Write{Bucket: bucket, Key: key, gate: g, done: make(chan struct{})}
	w.ctx, w.end = context.WithCancelCause(ctx)
	if g.inside == nil {
		g.inside = make(map[*Write]struct{})
	}
	g.inside[w] = struct{}{}
	return w, true
}

// Shut lets no write in any more where it is fenced, and returns those that are inside
// there. Where it was shut before and is not fenced now it is open again.
func (g *Gate) Shut(fenced func(bucket, key string) bool) (inside []*Write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fenced = fenced
	for w := range g.inside {
		if fenced(w.Bucket, w.Key) {
			inside = append(inside, w)
		}
	}
	return inside
}

// Context is that under which the write is sent.
func (w *Write) Context() context.Context { return w.ctx }

// Over says that the write has been carried out, or will not be.
func (w *Write) Over() {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	if _, inside := w.gate.inside[w]; inside {
		delete(w.gate.inside, w)
		close(w.done)
	}
}

// End is Over, and the end of its context.
func (w *Write) End() {
	w.Over()
	w.end(nil)
}

// Done is closed when it is over.
func (w *Write) Done() <-chan struct{} { return w.done }

// Cut ends the context of a write that is not over.
func (w *Write) Cut() {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	if _, inside := w.gate.inside[w]; inside {
		w.end(errCut)
	}
}

// WasCut reports whether Cut has ended it.
func (w *Write) WasCut() bool { return errors.Is(context.Cause(w.ctx), errCut) }
