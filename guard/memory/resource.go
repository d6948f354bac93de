package memory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
)

// resource is one guarded resource. Its shard's lock is its lock.
type resource struct {
	shard *shard
	name  string
	mark  guard.Mark
	// past are the issuers before that of mark.
	past []string
	// writer and readers are the admissions that mark stands for: that of the
	// one writer, that of all readers above it. Nil when there is none.
	writer, readers *admission
	// oldWriters and oldReaders are how many are inside under admissions that
	// have ended.
	oldWriters, oldReaders int
	// changed is closed when somebody who waits should look again. Nil when
	// nobody waits.
	changed chan struct{}
}

// admission is shared by all entries under one writer's token, or under the
// tokens of readers who may be inside together: an Enter allocates nothing. A
// new claim gets a new one, so that a second Exit under an old token never
// counts as somebody else's.
type admission struct {
	guard    *Guard
	resource *resource
	mode     guard.Mode
	inside   int
	ended    bool
}

// blocked is why an Enter has to wait: how many are inside whose admission has
// ended, and what is closed when that may have changed.
type blocked struct {
	inside  int
	changed <-chan struct{}
}

// tryEnter claims t. It returns an entry, or who is in the way, or an error.
func (g *Guard) tryEnter(t *guard.Token) (guard.Entry, blocked, error) {
	s := g.shard(t.Resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[t.Resource]
	if r == nil {
		if err := t.Validate(); err != nil {
			return nil, blocked{}, err
		}
		var err error
		if r, err = g.add(s, t.Resource); err != nil {
			return nil, blocked{}, &guard.RefusedError{Reason: err, Token: *t}
		}
	}
	mark, err := guard.Admit(r.mark, *t)
	if err != nil {
		return nil, blocked{}, err
	}
	r.raise(mark)
	if b := r.blocks(t.Mode); b.inside > 0 {
		return nil, b, nil
	}
	a := r.admission(g, t.Mode)
	a.inside++
	return a, blocked{}, nil
}

// adopt raises the mark of a resource to the one that an adoption leaves.
func (g *Guard) adopt(name, issuer string) (r *resource, before guard.Mark, err error) {
	s := g.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.resources[name]; r == nil {
		if r, err = g.add(s, name); err != nil {
			return nil, before, err
		}
	}
	before = r.mark
	if before.Touched() {
		if issuer == before.Issuer || slices.Contains(r.past, issuer) {
			return nil, before, fmt.Errorf("the resource has had issuer %q before", issuer)
		}
		r.past = append(r.past, before.Issuer)
	}
	r.raise(guard.Mark{Issuer: issuer, Generation: before.Generation + 1})
	return r, before, nil
}

var errFull = errors.New("the guard remembers as many resources as it may")

// add makes g remember one more resource, whose shard is locked.
func (g *Guard) add(s *shard, name string) (*resource, error) {
	if n := g.known.Add(1); g.config.MaxResources > 0 && n > int64(g.config.MaxResources) {
		return nil, fmt.Errorf("%w: %w", guard.ErrUnsupported, errFull)
	}
	r := &resource{shard: s, name: name}
	s.resources[name] = r
	return r, nil
}

// raise makes mark the mark of r and ends the admissions that it ends. Where a
// reader's claim does, those are a writer's: it ended the readers before it.
func (r *resource) raise(mark guard.Mark) {
	before := r.mark
	r.mark = mark
	if !guard.EndsAdmissions(before, mark) {
		return
	}
	if r.writer != nil {
		r.writer.ended = true
		r.oldWriters += r.writer.inside
	}
	if r.readers != nil {
		r.readers.ended = true
		r.oldReaders += r.readers.inside
	}
	r.writer, r.readers = nil, nil
	r.wake() // whoever waits under an older token is refused
}

// blocks returns who is in the way of a token that the mark admits. Whom its
// claim did not end may be among them: an earlier claim did, and waits too.
func (r *resource) blocks(mode guard.Mode) blocked {
	b := blocked{inside: r.oldWriters}
	if mode == guard.Exclusive {
		b.inside += r.oldReaders
	}
	if b.inside > 0 {
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		b.changed = r.changed
	}
	return b
}

func (r *resource) blockedBy(mode guard.Mode) blocked {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	return r.blocks(mode)
}

func (r *resource) admission(g *Guard, mode guard.Mode) *admission {
	current := &r.writer
	if mode == guard.Shared {
		current = &r.readers
	}
	if *current == nil {
		*current = &admission{guard: g, resource: r, mode: mode}
	}
	return *current
}

func (r *resource) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Exit ends one entry. One Exit too many is seen, logged and ignored when
// nobody else is inside under the same admission.
func (a *admission) Exit() {
	if !a.leave() {
		a.guard.config.Logger.Error("exit without entry", logResource, a.resource.name)
	}
}

func (a *admission) leave() bool {
	r := a.resource
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	if a.inside == 0 {
		return false
	}
	a.inside--
	if !a.ended {
		return true
	}
	old := &r.oldWriters
	if a.mode == guard.Shared {
		old = &r.oldReaders
	}
	if *old--; *old == 0 {
		r.wake()
	}
	return true
}
