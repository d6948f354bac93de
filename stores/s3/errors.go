package s3store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// What a caller decides by, beside the refusals of package guard.
var (
	// ErrNotFound: there is no such object.
	ErrNotFound = errors.New("no such object")
	// ErrPrecondition: a condition that the caller named is false: IfMatch,
	// IfNoneMatch, IfUnmodifiedSince. Nothing was written.
	ErrPrecondition = layout.ErrPrecondition
	// ErrNotModified: a conditional read found nothing new.
	ErrNotModified = errors.New("object is not modified")
	// ErrConflict: another write came first, and nothing was written. If it was
	// one of the same token, the payload could not be read a second time; if it
	// was one of an older token, look at the object before you do it again: what
	// you read of it before may be out of date (I9).
	ErrConflict = errors.New("another write came first")
	// ErrOlderWrite is the ErrConflict of the latter kind: the write that came
	// first was one of an older token, or past the fence.
	ErrOlderWrite = fmt.Errorf("%w, and not one of this token", ErrConflict)
	// ErrIssuerUsed: Adopt was given an issuer that the resource has, or had.
	ErrIssuerUsed = layout.ErrIssuerUsed
)

// done ends every public call: it names what was done, logs a refusal, and if
// the token was overtaken forgets that it was claimed, for somebody knows better.
func (s *Store) done(ctx context.Context, doing, key string, err error) error {
	if err == nil {
		return nil
	}
	var r *guard.RefusedError
	if errors.As(err, &r) {
		if errors.Is(r, guard.ErrStale) || errors.Is(r, guard.ErrDuplicate) || errors.Is(r, guard.ErrForeign) {
			s.claims.Forget(r.Token)
		}
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "refused",
			slog.String("resource", r.Token.Resource), slog.Any("presented", r.Token),
			slog.String("reason", r.Reason.Error()), slog.Any("mark", r.Mark), slog.String("key", key))
	}
	return fmt.Errorf("%s %q: %w", doing, key, err)
}

// notApplied says of an error that nothing was written. A refusal says so
// itself.
func notApplied(err error) error {
	if guard.OutcomeOf(err) == guard.Refused {
		return err
	}
	return guard.WithOutcome(err, guard.NotApplied)
}

// unsupported makes a refusal of an object that cannot be fenced as it is.
func unsupported(token guard.Token, err error) error {
	return refuse(token, fmt.Errorf("%w: %w", guard.ErrUnsupported, err))
}
