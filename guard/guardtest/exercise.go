package guardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

// scenarioTime bounds one scenario. It is far above what any target needs: a
// target that blocks for ever fails by it.
const scenarioTime = 2 * time.Minute

// Exercise shows that a target keeps to the rule, row by row, and that it keeps
// the invariants I1, I2, I3 and I5 when many write at once and tokens are
// superseded while they do. Each part is a subtest; those that the target has
// no interface for are not there.
func Exercise(t *testing.T, target Target) {
	t.Helper()
	for _, s := range scenarios(target) {
		t.Run(s.name, func(t *testing.T) {
			if err := s.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// scenario is one part of Exercise. It returns what the target did wrong, so
// that the tests of this package can see it caught.
type scenario struct {
	name string
	run  func(ctx context.Context) error
}

func scenarios(target Target) []scenario {
	var all []scenario
	add := func(name string, run func(context.Context, Target) error) {
		all = append(all, scenario{name, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, scenarioTime)
			defer cancel()
			return run(ctx, target)
		}})
	}
	for _, c := range Cases() {
		if c.adopts() && !can[Adopter](target) {
			continue
		}
		add("rule/claim/"+c.Name, c.exerciseClaim)
		add("rule/write/"+c.Name, c.exerciseWrite)
		if can[Checker](target) {
			add("rule/check/"+c.Name, c.exerciseCheck)
		}
	}
	if can[Adopter](target) {
		for _, c := range AdoptCases() {
			add("rule/adopt/"+c.Name, c.exercise)
		}
	}
	add("superseded tokens are refused", supersededTokens)
	add("readers never write", readersNeverWrite)
	add("writers of the current token run together", currentWriters)
	add("claims race", claimsRace)
	add("one number handed out twice", numberTwice)
	add("tokens superseded under load", supersededUnderLoad)
	add("writes given up half-way", writesGivenUp)
	if can[Opener](target) {
		add("open writes of the current token run together", openWriters)
		add("open write is superseded", openWriteSuperseded)
	}
	if can[Entrant](target) {
		add("a claim waits for who is inside", claimWaits)
		add("readers are inside together", readersInside)
		add("a claim that gives up waiting", claimGivesUp)
	}
	return all
}

func can[I any](target Target) bool {
	_, ok := target.(I)
	return ok
}

// expect compares an error of the target with the reason it should have, nil
// for none, and looks whether it says that nothing was written.
func expect(what string, err, reason error) error {
	switch {
	case reason == nil && err == nil:
		return nil
	case reason == nil:
		return fmt.Errorf("%s: %w, want no error (I3)", what, err)
	case err == nil:
		return fmt.Errorf("%s: done, want it refused: %w (I1, I5)", what, reason)
	case !errors.Is(err, reason):
		return fmt.Errorf("%s: %w, want %w", what, err, reason)
	case guard.OutcomeOf(err) != guard.Refused:
		return fmt.Errorf("%s: outcome is %v, want refused: %w (I2)", what, guard.OutcomeOf(err), err)
	}
	return nil
}

// expectWritten compares what was written to a resource with what should have.
func expectWritten(ctx context.Context, target Target, resource string, want ...string) error {
	got, err := target.Written(ctx, resource)
	if err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("written: %q, want %q (I2)", got, want)
	}
	return nil
}

// expectMark compares the mark of a resource, if the target can tell.
func expectMark(ctx context.Context, target Target, resource string, want guard.Mark) error {
	marker, ok := target.(Marker)
	if !ok {
		return nil
	}
	got, err := marker.Mark(ctx, resource)
	if err != nil {
		return fmt.Errorf("read mark: %w", err)
	}
	if got != want {
		return fmt.Errorf("mark is %+v, want %+v", got, want)
	}
	return nil
}
