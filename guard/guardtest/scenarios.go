package guardtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fenceproxy/fenceproxy/guard"
)

// newWriter returns writer 33 of a new resource, claimed.
func newWriter(ctx context.Context, target Target) (guard.Token, error) {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return guard.Token{}, fmt.Errorf("new resource: %w", err)
	}
	t := named(writer(33), resource)
	if err := target.Claim(ctx, t); err != nil {
		return guard.Token{}, fmt.Errorf("claim 33: %w", err)
	}
	return t, nil
}

// supersededTokens: once 34 is claimed, 33 is refused whatever it tries, and
// what it wrote before is there.
func supersededTokens(ctx context.Context, target Target) error {
	old, err := newWriter(ctx, target)
	if err != nil {
		return err
	}
	resource := old.Resource
	current := named(held(writer(34), "b"), resource)
	twin := held(current, "c")
	errs := []error{
		expect("write 33", target.Write(ctx, old, "33"), nil),
		expect("claim 34", target.Claim(ctx, current), nil),
		expect("write 33 after the claim of 34", target.Write(ctx, old, "33 stale"), guard.ErrStale),
		expect("write 34", target.Write(ctx, current, "34"), nil),
		expect("claim 33 again", target.Claim(ctx, old), guard.ErrStale),
		expect("write 33 after the write of 34", target.Write(ctx, old, "33 stale again"), guard.ErrStale),
		expect("write 34 of another holder", target.Write(ctx, twin, "34 twin"), guard.ErrDuplicate),
		expect("claim 34 again", target.Claim(ctx, current), nil),
		expect("write 34 again", target.Write(ctx, current, "34 again"), nil),
		expectWritten(ctx, target, resource, "33", "34", "34 again"),
	}
	return errors.Join(errs...)
}

// readersNeverWrite: a shared token is admitted and does not write, and its
// claim ends a writer's.
func readersNeverWrite(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return err
	}
	w33, r34, r35, w36 := named(writer(33), resource), named(reader(34), resource), named(reader(35), resource), named(writer(36), resource)
	errs := []error{
		expect("claim writer 33", target.Claim(ctx, w33), nil),
		expect("write 33", target.Write(ctx, w33, "33"), nil),
		expect("claim reader 35", target.Claim(ctx, r35), nil),
		expect("claim reader 34", target.Claim(ctx, r34), nil),
		expect("write of reader 34", target.Write(ctx, r34, "34"), guard.ErrReadOnly),
		expect("write of reader 35", target.Write(ctx, r35, "35"), guard.ErrReadOnly),
		expect("write 33 after readers", target.Write(ctx, w33, "33 stale"), guard.ErrStale),
		expect("claim writer 36", target.Claim(ctx, w36), nil),
		expect("claim reader 35 after a writer", target.Claim(ctx, r35), guard.ErrStale),
		expect("write 36", target.Write(ctx, w36, "36"), nil),
		expectWritten(ctx, target, resource, "33", "36"),
	}
	return errors.Join(errs...)
}

// currentWriters: none of many writes at once of the current token is refused.
func currentWriters(ctx context.Context, target Target) error {
	current, err := newWriter(ctx, target)
	if err != nil {
		return err
	}
	const writes = 64
	values := make([]string, writes)
	errs := make([]error, writes)
	var all sync.WaitGroup
	for i := range writes {
		values[i] = fmt.Sprintf("value %d", i)
		all.Go(func() { errs[i] = expect(values[i], target.Write(ctx, current, values[i]), nil) })
	}
	all.Wait()
	return errors.Join(first(errs), expectWritten(ctx, target, current.Resource, values...))
}

// claimsRace: of many claims at once, in no order, the highest succeeds, and
// none of the others can write once it has.
func claimsRace(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return err
	}
	const claims = 16
	tokens := make([]guard.Token, claims)
	claimed := make([]error, claims)
	var all sync.WaitGroup
	for i := range claims {
		tokens[i] = named(held(writer(int64(i+1)), fmt.Sprintf("h%d", i)), resource)
		all.Go(func() { claimed[i] = target.Claim(ctx, tokens[i]) })
	}
	all.Wait()
	highest := claims - 1
	errs := []error{expect("claim of the highest", claimed[highest], nil)}
	for i, t := range tokens[:highest] {
		if claimed[i] != nil { // it came too late
			errs = append(errs, expect(fmt.Sprintf("claim %d", t.Number), claimed[i], guard.ErrStale))
		}
		errs = append(errs, expect(fmt.Sprintf("write %d", t.Number), target.Write(ctx, t, "stale"), guard.ErrStale))
	}
	return errors.Join(first(errs),
		expect("write of the highest", target.Write(ctx, tokens[highest], "current"), nil),
		expectWritten(ctx, target, resource, "current"))
}

// numberTwice: of many holders who were handed the same number, one gets in.
func numberTwice(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return err
	}
	const holders = 8
	claimed := make([]error, holders)
	written := make([]error, holders)
	var all sync.WaitGroup
	for i := range holders {
		t := named(held(writer(33), fmt.Sprintf("h%d", i)), resource)
		all.Go(func() {
			claimed[i] = target.Claim(ctx, t)
			written[i] = target.Write(ctx, t, t.Holder)
		})
	}
	all.Wait()
	var errs []error
	var winners []string
	for i := range holders {
		if claimed[i] == nil {
			winners = append(winners, fmt.Sprintf("h%d", i))
			errs = append(errs, expect("write of who claimed", written[i], nil))
			continue
		}
		errs = append(errs,
			expect("claim of the others", claimed[i], guard.ErrDuplicate),
			expect("write of the others", written[i], guard.ErrDuplicate))
	}
	if len(winners) != 1 {
		errs = append(errs, fmt.Errorf("claimed by %q, want one holder (I8)", winners))
	}
	return errors.Join(append(errs, expectWritten(ctx, target, resource, winners...))...)
}

// writesGivenUp: a write whose context ends says the truth about what became
// of it, and harms no other.
func writesGivenUp(ctx context.Context, target Target) error {
	current, err := newWriter(ctx, target)
	if err != nil {
		return err
	}
	const writes = 32
	var (
		log log
		all sync.WaitGroup
	)
	for i := range writes {
		given, cancel := context.WithCancel(ctx)
		if i%2 == 0 {
			cancel() // the others are cancelled at some moment of the write
		}
		all.Go(func() { log.write(given, target, current, fmt.Sprintf("value %d", i)) })
		all.Go(cancel)
	}
	all.Wait()
	return errors.Join(
		expect("write after those", log.write(ctx, target, current, "last"), nil),
		log.compare(ctx, target, current.Resource))
}
