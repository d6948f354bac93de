package memory

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Config configures a Guard. The zero Config is ready for use.
type Config struct {
	// MaxResources bounds how many resources the Guard remembers, for callers
	// whose clients choose the names. A token for one more is refused with
	// guard.ErrUnsupported: to forget a mark would lower it. Defaults to 0,
	// which is no bound.
	MaxResources int
	// Logger gets a line for each adoption, and one for each Exit without an
	// Enter. Defaults to none.
	Logger *slog.Logger
}

// The keys of what the Logger gets.
const (
	logResource = "resource"
	logIssuer   = "issuer"
	logMark     = "mark"
)

// Guard guards any number of resources, by name. It is safe for use by many
// goroutines.
type Guard struct {
	config Config
	seed   maphash.Seed
	shards [256]shard
	known  atomic.Int64 // resources in all shards, and those refused for being one too many
}

// shard holds the resources whose names hash to it, and is the lock of each.
// Nobody waits or does I/O under it.
type shard struct {
	mu        sync.Mutex
	resources map[string]*resource
	_         [48]byte // one cache line each
}

// New returns a Guard that has seen no token yet. It refuses a negative
// MaxResources.
func New(config Config) (*Guard, error) {
	if config.MaxResources < 0 {
		return nil, errors.New("memory: MaxResources is negative")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{config: config, seed: maphash.MakeSeed()}
	for i := range g.shards {
		g.shards[i].resources = make(map[string]*resource)
	}
	return g, nil
}

// Enter claims t at its resource, or checks that it is claimed, and returns an
// entry that the caller must Exit exactly once. A claim that ends the
// admission of others raises the mark at once, so that they are refused from
// then on, and returns when those of them who are inside have left. A claim by
// a further reader waits for nobody.
//
// A refusal is a *guard.RefusedError of guard.Admit; a waiting Enter is
// refused as soon as a newer claim comes. Ctx bounds the wait alone: when it
// ends, the error matches ctx.Err(), tells how many are still inside, and has
// outcome guard.NotApplied; the mark stays raised, and a further Enter of the
// same token waits on.
//
// Whoever is inside under an older token must not Enter a newer one: it would
// wait for itself.
func (g *Guard) Enter(ctx context.Context, t guard.Token) (guard.Entry, error) {
	for {
		entry, blocked, err := g.tryEnter(&t)
		if err != nil {
			return nil, err
		}
		if entry != nil {
			return entry, nil
		}
		select {
		case <-blocked.changed:
		case <-ctx.Done():
			if entry, blocked, err = g.tryEnter(&t); entry != nil {
				return entry, nil
			}
			if err != nil {
				return nil, err
			}
			err = fmt.Errorf("enter %q as %v %d: %d of older tokens still inside: %w",
				t.Resource, t.Mode, t.Number, blocked.inside, ctx.Err())
			return nil, guard.WithOutcome(err, guard.NotApplied)
		}
	}
}

// Mark returns the mark of resource, the zero Mark if nobody has claimed it.
func (g *Guard) Mark(resource string) guard.Mark {
	s := g.shard(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resources[resource]; r != nil {
		return r.mark
	}
	return guard.Mark{}
}

// Adopt makes resource belong to issuer: its generation rises by one and its
// numbers start again. It is an operator's act, for when the numbers of the
// issuer so far are lost. It refuses an issuer that the resource has had
// before, whose old tokens it would admit again.
//
// It ends every admission, and waits as a claim does. When ctx ends first, the
// error matches ctx.Err(), and the adoption stands: tokens of the old issuer
// are refused, those of the new one wait for whoever is still inside.
func (g *Guard) Adopt(ctx context.Context, resource, issuer string) error {
	if err := errors.Join(guard.ValidateResource(resource), guard.ValidateID(issuer)); err != nil {
		return fmt.Errorf("adopt %q: %w", resource, err)
	}
	r, before, err := g.adopt(resource, issuer)
	if err != nil {
		return fmt.Errorf("adopt %q: %w", resource, err)
	}
	g.config.Logger.InfoContext(ctx, "resource adopted", logResource, resource, logIssuer, issuer, logMark, before)
	for {
		blocked := r.blockedBy(guard.Exclusive)
		if blocked.inside == 0 {
			return nil
		}
		select {
		case <-blocked.changed:
		case <-ctx.Done():
			inside := r.blockedBy(guard.Exclusive).inside
			return fmt.Errorf("adopted %q: %d of older tokens still inside: %w", resource, inside, ctx.Err())
		}
	}
}

func (g *Guard) shard(resource string) *shard {
	return &g.shards[maphash.String(g.seed, resource)%uint64(len(g.shards))]
}
