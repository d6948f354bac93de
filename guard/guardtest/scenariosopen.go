package guardtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

// patience is how long a scenario looks on while a claim should be waiting, and
// how long one that is to give up waits. No result depends on its length: a
// claim that returns too early is caught sooner or later, and none is caught
// that does not.
const patience = 50 * time.Millisecond

// claimed starts a claim, which may have to wait, and returns where its error
// will be. The channel has room for it, so that nobody needs to take it.
func claimed(ctx context.Context, target Target, t guard.Token) <-chan error {
	result := make(chan error, 1)
	go func() { result <- target.Claim(ctx, t) }()
	return result
}

// stillWaits reports whether a claim that has been started has not returned.
func stillWaits(result <-chan error) error {
	select {
	case err := <-result:
		return errors.Join(errors.New("claim returned while an older token was inside (I1)"), err)
	case <-time.After(patience):
		return nil
	}
}

// openWriters: writes of the current token that are open at the same time all
// succeed, whichever ends first.
func openWriters(ctx context.Context, target Target) error {
	current, err := newWriter(ctx, target)
	if err != nil {
		return err
	}
	values := []string{"a", "b", "c", "d"}
	var finishes []func(context.Context) error
	for _, value := range values {
		finish, err := target.(Opener).Open(ctx, current, value)
		if err != nil {
			return fmt.Errorf("open %q beside others: %w (I3)", value, err)
		}
		finishes = append(finishes, finish)
	}
	var errs []error
	for i := range finishes {
		last := len(finishes) - 1 - i
		errs = append(errs, expect("finish "+values[last], finishes[last](ctx), nil))
	}
	return errors.Join(append(errs, expectWritten(ctx, target, current.Resource, values...))...)
}

// openWriteSuperseded: an open write of 33 that ends after the claim of 34 has
// returned is refused; one that is applied was waited for.
func openWriteSuperseded(ctx context.Context, target Target) error {
	old, err := newWriter(ctx, target)
	if err != nil {
		return err
	}
	current := named(held(writer(34), "b"), old.Resource)
	finish, err := target.(Opener).Open(ctx, old, "33")
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	claim := claimed(ctx, target, current)
	var finished, refused error
	if stillWaits(claim) == nil {
		finished = finish(ctx)
		if err := <-claim; err != nil {
			return fmt.Errorf("claim 34: %w (I4)", err)
		}
	} else {
		finished = finish(ctx)
		refused = expect("finish 33 after the claim of 34", finished, guard.ErrStale)
	}
	var there []string
	if finished == nil {
		there = append(there, "33")
	}
	return errors.Join(refused,
		expectWritten(ctx, target, current.Resource, there...),
		expect("write 34", target.Write(ctx, current, "34"), nil),
		expectWritten(ctx, target, current.Resource, append(there, "34")...))
}

// claimWaits: no claim returns while somebody is inside whom it ends.
func claimWaits(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return err
	}
	entrant := target.(Entrant)
	old, current := named(writer(33), resource), named(held(writer(34), "b"), resource)
	first, err := entrant.Enter(ctx, old)
	if err != nil {
		return fmt.Errorf("enter 33: %w", err)
	}
	second, err := entrant.Enter(ctx, old)
	if err != nil {
		return fmt.Errorf("enter 33 beside another: %w (I3)", err)
	}
	claim := claimed(ctx, target, current)
	errs := []error{stillWaits(claim)}
	first.Exit()
	if errs[0] == nil {
		errs = append(errs, stillWaits(claim))
	}
	second.Exit()
	if errors.Join(errs...) == nil {
		errs = append(errs, expect("claim 34 when all have left", <-claim, nil))
	}
	_, err = entrant.Enter(ctx, old)
	errs = append(errs, expect("enter 33 after the claim of 34", err, guard.ErrStale))
	entry, err := entrant.Enter(ctx, current)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("enter 34: %w", err))...)
	}
	entry.Exit()
	return errors.Join(errs...)
}

// readersInside: readers wait for no reader, a writer waits for all of them.
func readersInside(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return err
	}
	entrant := target.(Entrant)
	var inside []guard.Entry
	for _, number := range []int64{34, 36, 35} {
		entry, err := entrant.Enter(ctx, named(reader(number), resource))
		if err != nil {
			return fmt.Errorf("enter reader %d beside readers: %w", number, err)
		}
		inside = append(inside, entry)
	}
	claim := claimed(ctx, target, named(writer(40), resource))
	waits := stillWaits(claim)
	for _, entry := range inside {
		entry.Exit()
	}
	if waits != nil {
		return waits
	}
	claimErr := <-claim
	_, err = entrant.Enter(ctx, named(reader(36), resource))
	return errors.Join(
		expect("claim of a writer when all readers have left", claimErr, nil),
		expect("enter reader 36 after writer 40", err, guard.ErrStale))
}

// claimGivesUp: a claim that cannot wait any longer fails without a refusal,
// and can be made again.
func claimGivesUp(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return err
	}
	entrant := target.(Entrant)
	old, current := named(writer(33), resource), named(held(writer(34), "b"), resource)
	entry, err := entrant.Enter(ctx, old)
	if err != nil {
		return fmt.Errorf("enter 33: %w", err)
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = target.Claim(short, current)
	entry.Exit()
	var gaveUp error
	if outcome := guard.OutcomeOf(err); outcome != guard.NotApplied && outcome != guard.Unknown {
		gaveUp = fmt.Errorf("claim 34 while 33 is inside: %w, outcome %v, want one that gave up (I4)", err, outcome)
	}
	errs := []error{gaveUp, expect("claim 34 when 33 has left", target.Claim(ctx, current), nil)}
	_, err = entrant.Enter(ctx, old)
	return errors.Join(append(errs, expect("enter 33 after the claim of 34", err, guard.ErrStale))...)
}
