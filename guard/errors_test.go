package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

func TestRefusedErrorSaysWhy(t *testing.T) {
	t.Parallel()
	mark := guard.Mark{Issuer: "k3v9", Writer: 34, Holder: "secret", Reader: 30}
	token := guard.Token{Resource: "orders", Number: 33, Mode: guard.Exclusive, Holder: "mine", Issuer: "k3v9"}
	_, stale := guard.Admit(mark, token)
	_, malformed := guard.Parse("ft1:x:42:a:i:or%00ders")
	_, shapeless := guard.Parse("orders")
	reader := token
	reader.Mode = guard.Shared
	for want, err := range map[string]error{
		`fence: stale token: x 33 for "orders" (mark: writer 34, reader 30, issuer "k3v9")`:   stale,
		`fence: malformed token: resource has a control character: x 42 for "or\x00ders"`:     malformed,
		`fence: malformed token: text is not ft1:<x|s>:<number>:<holder>:<issuer>:<resource>`: shapeless,
		`fence: malformed token: resource is empty`:                                           guard.ValidateResource(""),
		`fence: malformed token: id is not [A-Za-z0-9_-]{0,64}`:                               guard.ValidateID("a b"),
		`fence: shared token cannot write: s 33 for "orders"`:                                 reader.MayWrite(),
		`fence: no token for "orders"`:                                                        &guard.RefusedError{Reason: guard.ErrNoToken, Token: guard.Token{Resource: "orders"}},
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

type outcomeful struct{ outcome guard.Outcome }

func (e outcomeful) Error() string          { return e.outcome.String() }
func (e outcomeful) Outcome() guard.Outcome { return e.outcome }

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	refused := &guard.RefusedError{Reason: guard.ErrStale}
	notApplied := guard.WithOutcome(io.ErrUnexpectedEOF, guard.NotApplied)
	unknown := guard.WithOutcome(context.Canceled, guard.Unknown)
	for _, row := range []struct {
		name string
		err  error
		want guard.Outcome
	}{
		{"no error", nil, guard.Applied},
		{"an error that does not know", io.EOF, guard.Unknown},
		{"a context's error", context.DeadlineExceeded, guard.Unknown},
		{"refusal", refused, guard.Refused},
		{"wrapped refusal", fmt.Errorf("commit: %w", refused), guard.Refused},
		{"sentinel alone", guard.ErrStale, guard.Unknown},
		{"not applied", notApplied, guard.NotApplied},
		{"failed after it was applied", guard.WithOutcome(io.EOF, guard.Applied), guard.Applied},
		{"unknown", unknown, guard.Unknown},
		{"refusal whose outcome is overruled", guard.WithOutcome(refused, guard.Unknown), guard.Unknown},
		{"an error type of one's own", fmt.Errorf("x: %w", outcomeful{guard.NotApplied}), guard.NotApplied},
		{"joined with errors that do not know", errors.Join(io.EOF, refused, io.EOF), guard.Refused},
		{"joined by Errorf", fmt.Errorf("%w; roll back: %w", refused, io.EOF), guard.Refused},
		{"joined errors that agree", errors.Join(refused, fmt.Errorf("x: %w", refused)), guard.Refused},
		{"joined with unknown", errors.Join(refused, unknown), guard.Unknown},
		{"joined with unknown first", errors.Join(unknown, refused), guard.Unknown},
		{"joined errors that disagree", errors.Join(refused, notApplied, refused), guard.Unknown},
		{"joined within joined", errors.Join(refused, errors.Join(io.EOF, unknown)), guard.Unknown},
		{"joined errors that do not know", errors.Join(io.EOF, io.EOF), guard.Unknown},
	} {
		if got := guard.OutcomeOf(row.err); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestWithOutcome(t *testing.T) {
	t.Parallel()
	if err := guard.WithOutcome(nil, guard.NotApplied); err != nil {
		t.Errorf("no error became %v", err)
	}
	err := guard.WithOutcome(io.EOF, guard.NotApplied)
	if !errors.Is(err, io.EOF) {
		t.Errorf("%v lost its cause", err)
	}
	if want := "write not applied: EOF"; err.Error() != want {
		t.Errorf("printed as %q, want %q", err, want)
	}
	for outcome, want := range map[guard.Outcome]string{
		guard.Unknown: "unknown", guard.Applied: "applied", guard.Refused: "refused", guard.NotApplied: "not applied", 99: "unknown",
	} {
		if outcome.String() != want {
			t.Errorf("outcome %d is printed as %q, want %q", outcome, outcome, want)
		}
	}
}
