package guardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fenceproxy/fenceproxy/guard"
)

// log remembers every write and what the target said of it.
type log struct {
	mu     sync.Mutex
	writes []entry
}

type entry struct {
	number int64
	value  string
	err    error
}

func (l *log) write(ctx context.Context, target Target, t guard.Token, value string) error {
	err := target.Write(ctx, t, value)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, entry{t.Number, value, err})
	return err
}

// compare looks whether what was acknowledged is there, and what was reported
// as refused or not applied is not (I2). Whoever wrote has ended.
func (l *log) compare(ctx context.Context, target Target, resource string) error {
	written, err := target.Written(ctx, resource)
	if err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	var errs []error
	times := map[string]int{}
	for _, value := range written {
		times[value]++
	}
	for _, w := range l.writes {
		n := times[w.value]
		delete(times, w.value)
		switch outcome := guard.OutcomeOf(w.err); {
		case n > 1:
			errs = append(errs, fmt.Errorf("write %q is there %d times (I2)", w.value, n))
		case outcome == guard.Applied && n == 0:
			errs = append(errs, fmt.Errorf("write %q was acknowledged and is not there (I2)", w.value))
		case (outcome == guard.Refused || outcome == guard.NotApplied) && n > 0:
			errs = append(errs, fmt.Errorf("write %q was reported %v and is there: %w (I2)", w.value, outcome, w.err))
		}
	}
	for value := range times {
		errs = append(errs, fmt.Errorf("%q is there and nobody wrote it", value))
	}
	return first(errs)
}

// first joins the first few of errs: a target without a check does the same
// thing wrong a thousand times.
func first(errs []error) error {
	const few = 5
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > few {
		errs = append(errs[:few:few], fmt.Errorf("and %d more", len(errs)-few))
	}
	return errors.Join(errs...)
}

const (
	loadTokens  = 20 // tokens that supersede each other
	loadWriters = 4  // writers under each token
	loadWrites  = 3  // acknowledged writes of each of them before the next token
	loadBurst   = 32 // after as many it waits for the next claim to begin
	loadStale   = 3  // refusals until a writer has understood
)

// supersededUnderLoad: writers write as fast as they can while newer tokens are
// claimed. The writers of a token stop when they were refused a few times, so
// that those of several tokens write at once.
func supersededUnderLoad(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return err
	}
	untilWrong, stop := context.WithCancel(ctx)
	defer stop()
	l := pressure{target: target, resource: resource, stop: stop, seen: map[int64][]string{}}
	err = l.supersede(untilWrong)
	if err != nil {
		stop() // nobody supersedes the last token's writers
	}
	l.writers.Wait()
	switch {
	case len(l.violations) > 0:
		return first(l.violations)
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("superseded writers were neither admitted nor refused: %w", ctx.Err())
	}
	return errors.Join(l.compareSeen(ctx), l.compare(ctx, target, resource))
}

// pressure is a run of supersededUnderLoad.
type pressure struct {
	log
	target   Target
	resource string
	writers  sync.WaitGroup
	stop     context.CancelFunc // ends the run at the first violation
	// begun and returned are the highest numbers whose claim has begun, and has
	// returned.
	begun, returned atomic.Int64
	// seen is what had been written when the claim of a number had returned.
	seen       map[int64][]string
	violations []error // under log.mu
}

// crew is the writers of one token.
type crew struct {
	token       guard.Token
	done        atomic.Int64  // writers with loadWrites acknowledged writes
	enough      chan struct{} // closed when all of them have
	superseding chan struct{} // closed when the next claim begins
}

// supersede claims token after token; the last one has no writers.
func (l *pressure) supersede(ctx context.Context) error {
	for number := int64(1); ; number++ {
		c := &crew{
			token:       named(held(writer(number), fmt.Sprintf("h%d", number)), l.resource),
			enough:      make(chan struct{}),
			superseding: make(chan struct{}),
		}
		l.begun.Store(number)
		if err := l.target.Claim(ctx, c.token); err != nil {
			return fmt.Errorf("claim %d: %w (I3)", number, err)
		}
		l.returned.Store(number)
		seen, err := l.target.Written(ctx, l.resource)
		if err != nil {
			return fmt.Errorf("read what was written: %w", err)
		}
		l.seen[number] = seen
		if number > loadTokens {
			return nil
		}
		for w := range loadWriters {
			l.writers.Go(func() { l.writeUntilRefused(ctx, c, w) })
		}
		select {
		case <-c.enough:
			close(c.superseding)
		case <-ctx.Done():
			return fmt.Errorf("token %d: %d of %d writers got %d writes done: %w (I3)",
				number, c.done.Load(), loadWriters, loadWrites, ctx.Err())
		}
	}
}

func (l *pressure) writeUntilRefused(ctx context.Context, c *crew, writer int) {
	number := c.token.Number
	acknowledged, refusals := 0, 0
	for i := 0; refusals < loadStale && ctx.Err() == nil; i++ {
		if acknowledged == loadBurst { // the race is at the claim: no need for more before it
			select {
			case <-c.superseding:
			case <-ctx.Done():
			}
		}
		overtaken := l.returned.Load() > number
		err := l.write(ctx, l.target, c.token, fmt.Sprintf("%d/%d/%d", number, writer, i))
		switch {
		case err == nil && overtaken:
			l.violated(fmt.Errorf("write %d began after a newer claim had returned, and was applied (I1)", number))
			return
		case err == nil:
			if acknowledged++; acknowledged == loadWrites && c.done.Add(1) == loadWriters {
				close(c.enough)
			}
		case guard.OutcomeOf(err) == guard.Refused:
			refusals++
			if l.begun.Load() == number {
				l.violated(fmt.Errorf("write %d was refused while it was current: %w (I3)", number, err))
			} else if !errors.Is(err, guard.ErrStale) {
				l.violated(fmt.Errorf("write %d: %w, want stale", number, err))
			}
		}
	}
}

func (l *pressure) violated(err error) {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, err)
}

// compareSeen looks whether any write under an older token was applied after a
// claim had returned (I1): it is there now and was not then.
func (l *pressure) compareSeen(ctx context.Context) error {
	written, err := l.target.Written(ctx, l.resource)
	if err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	numbers := map[string]int64{}
	for _, w := range l.writes {
		numbers[w.value] = w.number
	}
	var errs []error
	for claimed, seen := range l.seen {
		then := map[string]bool{}
		for _, value := range seen {
			then[value] = true
		}
		for _, value := range written {
			if numbers[value] < claimed && !then[value] {
				errs = append(errs, fmt.Errorf("write %q was applied after the claim of %d had returned (I1)", value, claimed))
			}
		}
	}
	return first(errs)
}
