package lockstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
	"github.com/fenceproxy/fenceproxy/guard/memory"
	"github.com/fenceproxy/fenceproxy/locks"
)

// judge is told of every grant of one resource, and says what is wrong with it.
// Behind it are a guard and the reference model of the rule.
type judge struct {
	guard *memory.Guard

	mu     sync.Mutex
	model  guardtest.Model
	issuer string
	held   map[locks.Lease]bool
	past   []guard.Token // all that were ever granted
	counts map[string]int
	story  []string
}

func newJudge() (*judge, error) {
	g, err := memory.New(memory.Config{})
	return &judge{guard: g, held: map[locks.Lease]bool{}, counts: map[string]int{}}, err
}

func (j *judge) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[what]++
}

func (j *judge) say(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.story = append(j.story, what)
}

// tail is what happened last.
func (j *judge) tail() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.story[max(0, len(j.story)-24):])
}

// granted judges a grant that was returned at that time: nobody may hold the
// lock then whom it excludes, and it is above all those whom it excludes.
func (j *judge) granted(lease locks.Lease, at time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	token := lease.Token()
	for other := range j.held {
		if excludes(other.Token(), token) && holdsAt(other, at) && holdsAt(lease, at) {
			return fmt.Errorf("%v was granted while %v is held for another %v", token, other.Token(), other.Deadline().Sub(at))
		}
	}
	if j.issuer == "" {
		j.issuer = token.Issuer
	}
	if token.Issuer != j.issuer {
		return fmt.Errorf("issuer of %v is not %s", token, j.issuer)
	}
	for _, earlier := range j.past {
		if excludes(earlier, token) && earlier.Number >= token.Number && lease.Err() == nil {
			return fmt.Errorf("%v was granted after %v", token, earlier)
		}
		if earlier.Holder == token.Holder {
			return fmt.Errorf("%v and %v have one holder", token, earlier)
		}
	}
	j.past = append(j.past, token)
	j.held[lease] = true
	j.counts["grants"]++
	return j.admitted(lease)
}

// holdsAt reports whether the holder of lease may believe that it holds it.
func holdsAt(lease locks.Lease, at time.Time) bool {
	return lease.Err() == nil && lease.Deadline().After(at)
}

func excludes(a, b guard.Token) bool { return a.Mode == guard.Exclusive || b.Mode == guard.Exclusive }

// works judges a write, or a read, of a holder at the resource.
func (j *judge) works(lease locks.Lease) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts["works"]++
	return j.admitted(lease)
}

// admitted has guard and model decide. They agree, and refuse nobody who holds
// the lock (I3).
func (j *judge) admitted(lease locks.Lease) error {
	token := lease.Token()
	want := j.model.Claim(token)
	entry, err := j.guard.Enter(context.Background(), token)
	if err == nil {
		entry.Exit()
	}
	switch {
	case !errors.Is(err, want) || (err == nil) != (want == nil):
		return fmt.Errorf("guard: %w, model: %w", err, want)
	case err != nil && holdsAt(lease, time.Now()):
		return fmt.Errorf("current holder was refused: %w", err)
	case err != nil:
		j.counts["refused"]++
	}
	return nil
}

// leaves is to be told before a holder releases.
func (j *judge) leaves(lease locks.Lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.held, lease)
}

// closes judges the end: of all tokens guard and model still think the same.
func (j *judge) closes(resource string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if mark, want := j.guard.Mark(resource), j.model.Mark(); mark != want {
		return fmt.Errorf("mark is %+v, want %+v", mark, want)
	}
	for _, token := range j.past {
		want := j.model.Claim(token)
		entry, err := j.guard.Enter(context.Background(), token)
		if err == nil {
			entry.Exit()
		}
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			return fmt.Errorf("%v: guard: %w, model: %w", token, err, want)
		}
	}
	return nil
}
