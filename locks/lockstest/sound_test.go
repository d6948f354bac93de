package lockstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// soundTTL is short: nothing in this service takes time.
const soundTTL = 60 * time.Millisecond

// flaws are what a lock service of this package may do wrong. The zero value is
// a sound one.
type flaws struct {
	name func(resource string) string // what a resource is called there
	// next says whether the i-th of queue may hold the lock; nil for the rule.
	next func(queue []*spot, i int) bool
	// number makes one; nil for the next.
	number func(last int64) int64
	// Each is a flaw that says its name.
	neverLost, lateLost, keepsCancelled, keepsReleased, freesOthers, keepsCrashed bool
	sharedIsExclusive, tryOvertakes, tryWaits, oneHolder, silentRelease           bool
	brokenWaits, bothOnCancel                                                     bool
}

// service is a lock service in memory.
type service struct {
	flaws
	mu     sync.Mutex
	last   int64
	queues map[string][]*spot
	links  int
	down   map[string]bool // links that refuse
}

func newService(f flaws) *service {
	return &service{flaws: f, queues: map[string][]*spot{}, down: map[string]bool{}}
}

func (s *service) backend(patience time.Duration) Backend {
	return Backend{
		Shared:   func(testing.TB) Service { return s },
		Private:  func(testing.TB) Service { return s },
		Link:     s.link,
		Counts:   func(string) bool { return true },
		TTL:      soundTTL,
		Patience: patience,
	}
}

// spot is a place in a queue, and the lease that comes of it.
type spot struct {
	service *service
	locker  *locker
	token   guard.Token
	granted chan struct{} // closed with the grant
	broken  chan struct{} // closed when the place is lost
	once    sync.Once

	mu       sync.Mutex
	lost     chan struct{}
	err      error
	deadline time.Time // zero while the locker is up
	over     bool      // released
}

type locker struct {
	service *service
	addr    string
	ttl     time.Duration
}

func (s *service) Addr() string       { return "memory" }
func (s *service) Restart(testing.TB) {}

func (s *service) Open(_ testing.TB, addr string, ttl time.Duration) locks.Locker {
	return &locker{s, addr, ttl}
}

func (s *service) key(resource string) string {
	if s.name != nil {
		return s.name(resource)
	}
	return resource
}

func (s *service) Entries(_ testing.TB, resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues[s.key(resource)])
}

func (s *service) Break(tb testing.TB, resource string, token guard.Token) {
	tb.Helper()
	s.mu.Lock()
	queue := s.queues[s.key(resource)]
	i := len(queue) - 1
	if token.Holder != "" {
		i = slices.IndexFunc(queue, func(sp *spot) bool { return sp.token.Holder == token.Holder })
	}
	if i < 0 {
		s.mu.Unlock()
		tb.Fatalf("nothing of %v", token)
	}
	broken := queue[i]
	s.mu.Unlock()
	s.remove(broken)
	broken.lose()
}

// advance grants to all whose turn it is. The caller holds mu.
func (s *service) advance(key string) {
	for i, sp := range s.queues[key] {
		if !isGranted(sp) && s.turn(s.queues[key], i) {
			sp.token.Number = s.mint()
			close(sp.granted)
		}
	}
}

func (s *service) mint() int64 {
	if s.number != nil {
		s.last = s.number(s.last)
	} else {
		s.last++
	}
	return s.last
}

func isGranted(sp *spot) bool {
	select {
	case <-sp.granted:
		return true
	default:
		return false
	}
}

func (s *service) turn(queue []*spot, i int) bool {
	if s.next != nil {
		return s.next(queue, i)
	}
	return !slices.ContainsFunc(queue[:i], func(before *spot) bool { return excludes(before.token, queue[i].token) })
}

func (s *service) remove(sp *spot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.key(sp.token.Resource)
	s.queues[key] = slices.DeleteFunc(s.queues[key], func(other *spot) bool { return other == sp })
	s.advance(key)
}

// link is one that can do no more than refuse.
func (s *service) link(testing.TB, string) Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links++
	return &memoryLink{s, fmt.Sprint("link ", s.links)}
}

type memoryLink struct {
	service *service
	addr    string
}

func (l *memoryLink) Addr() string                       { return l.addr }
func (l *memoryLink) DropReplyTo(func(string) bool, int) {}
func (l *memoryLink) Delay(time.Duration)                {}
func (l *memoryLink) Freeze()                            {}
func (l *memoryLink) Thaw()                              {}
func (l *memoryLink) Cut()                               {}

// Refuse has all that came over the link end by its time.
func (l *memoryLink) Refuse(refuse bool) {
	s := l.service
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[l.addr] = refuse
	if !refuse {
		return
	}
	for _, queue := range s.queues {
		for _, sp := range queue {
			if sp.locker.addr == l.addr && !s.keepsCrashed {
				sp.expire()
			}
		}
	}
}

func (sp *spot) expire() {
	lost := sp.locker.ttl / 2
	if sp.service.lateLost {
		lost = 3 * sp.locker.ttl
	}
	sp.mu.Lock()
	sp.deadline = time.Now().Add(lost)
	sp.mu.Unlock()
	time.AfterFunc(lost, sp.lose)
	time.AfterFunc(sp.locker.ttl, func() { sp.service.remove(sp) })
}

// acquire is all four ways to acquire.
func (l *locker) acquire(ctx context.Context, resource string, mode guard.Mode, try bool) (locks.Lease, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("acquire: %w: %w", ctx.Err(), context.Cause(ctx))
	}
	s := l.service
	if s.sharedIsExclusive {
		mode = guard.Exclusive
	}
	sp := &spot{
		service: s, locker: l, granted: make(chan struct{}), broken: make(chan struct{}), lost: make(chan struct{}),
		token: guard.Token{Resource: resource, Mode: mode, Holder: locks.NewID(), Issuer: "memory"},
	}
	if s.oneHolder {
		sp.token.Holder = "me"
	}
	s.mu.Lock()
	if s.down[l.addr] {
		s.mu.Unlock()
		return nil, errors.New("nobody answers")
	}
	key := s.key(resource)
	held := slices.DeleteFunc(slices.Clone(s.queues[key]), func(other *spot) bool { return !isGranted(other) })
	s.queues[key] = append(s.queues[key], sp)
	if try && s.tryOvertakes && s.turn(append(held, sp), len(held)) {
		s.queues[key] = slices.Insert(s.queues[key][:len(s.queues[key])-1], 0, sp)
	}
	s.advance(key)
	s.mu.Unlock()
	if try && !s.tryWaits && !isGranted(sp) {
		s.remove(sp)
		return nil, locks.ErrHeld
	}
	return sp.wait(ctx)
}

func (sp *spot) wait(ctx context.Context) (locks.Lease, error) {
	select {
	case <-sp.granted:
		return sp, nil
	case <-sp.broken:
		return nil, locks.ErrLost
	case <-ctx.Done():
		if !sp.service.keepsCancelled {
			sp.service.remove(sp)
		}
		if sp.service.bothOnCancel {
			return sp, ctx.Err()
		}
		return nil, ctx.Err()
	}
}

func (l *locker) Acquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, false)
}

func (l *locker) AcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, false)
}

func (l *locker) TryAcquire(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Exclusive, true)
}

func (l *locker) TryAcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return l.acquire(ctx, resource, guard.Shared, true)
}
