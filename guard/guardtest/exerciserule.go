package guardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
)

// adopts reports whether the case needs a target that can adopt.
func (c Case) adopts() bool {
	return slices.ContainsFunc(c.Given, func(s Step) bool { return s.Adopt })
}

// begin does what the case is given, on a new resource, and moves it there.
func (c Case) begin(ctx context.Context, target Target) (Case, string, error) {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return c, "", fmt.Errorf("new resource: %w", err)
	}
	c = c.On(resource)
	if err := play(ctx, target, resource, c.Given); err != nil {
		return c, "", err
	}
	return c, resource, expectMark(ctx, target, resource, c.Before)
}

func play(ctx context.Context, target Target, resource string, given []Step) error {
	for i, step := range given {
		var err error
		if step.Adopt {
			err = target.(Adopter).Adopt(ctx, resource, step.Issuer)
		} else {
			err = target.Claim(ctx, step.Token)
		}
		if err != nil {
			return fmt.Errorf("step %d of %d before: %w", i+1, len(given), err)
		}
	}
	return nil
}

func (c Case) exerciseClaim(ctx context.Context, target Target) error {
	c, resource, err := c.begin(ctx, target)
	if err != nil {
		return err
	}
	return errors.Join(
		expect("claim", target.Claim(ctx, c.Token), c.Claim),
		expectMark(ctx, target, resource, c.After),
		expectWritten(ctx, target, resource))
}

func (c Case) exerciseCheck(ctx context.Context, target Target) error {
	c, resource, err := c.begin(ctx, target)
	if err != nil {
		return err
	}
	return errors.Join(
		expect("check", target.(Checker).Check(ctx, c.Token), c.Check),
		expectMark(ctx, target, resource, c.Before))
}

// exerciseWrite writes under the token instead of claiming it. It is refused as
// a check is, unless the target's writes claim; a shared token's always.
func (c Case) exerciseWrite(ctx context.Context, target Target) error {
	c, resource, err := c.begin(ctx, target)
	if err != nil {
		return err
	}
	err = target.Write(ctx, c.Token, "value")
	reason, mark := c.Check, c.Before
	var written []string
	switch {
	case c.Token.Mode == guard.Shared:
		if c.Check == nil || errors.Is(err, guard.ErrReadOnly) {
			reason = guard.ErrReadOnly
		}
		return errors.Join(
			expect("write", err, reason),
			expectWritten(ctx, target, resource))
	case c.Claim == nil && !errors.Is(err, guard.ErrUnclaimed):
		reason, mark, written = nil, c.After, []string{"value"}
	}
	return errors.Join(
		expect("write", err, reason),
		expectMark(ctx, target, resource, mark),
		expectWritten(ctx, target, resource, written...))
}

func (c AdoptCase) exercise(ctx context.Context, target Target) error {
	resource, err := target.NewResource(ctx)
	if err != nil {
		return fmt.Errorf("new resource: %w", err)
	}
	c = c.On(resource)
	if err := play(ctx, target, resource, c.Given); err != nil {
		return err
	}
	err = target.(Adopter).Adopt(ctx, resource, c.Issuer)
	var wrong error
	if refused := err != nil; refused != c.Refused {
		wrong = errors.Join(fmt.Errorf("adopt: refused is %v, want %v", refused, c.Refused), err)
	}
	return errors.Join(wrong, expectMark(ctx, target, resource, c.After))
}
