package guard

import (
	"errors"
	"strconv"
	"strings"
)

// The reasons for a refusal. Every refusal is a *RefusedError that wraps one
// of them, so that errors.Is tells which; carrier has their SQLSTATE and their
// HTTP code.
var (
	// ErrStale: a newer token has been admitted; the lock is lost.
	ErrStale = errors.New("stale token")
	// ErrDuplicate: the same number was handed out to somebody else too.
	ErrDuplicate = errors.New("duplicate token")
	// ErrForeign: the resource belongs to another issuer.
	ErrForeign = errors.New("token of a foreign issuer")
	// ErrUnclaimed: the token would be admitted but was not claimed first.
	ErrUnclaimed = errors.New("token not claimed")
	// ErrNoToken: the write carries no token, or none for this resource.
	ErrNoToken = errors.New("no token")
	// ErrMalformed: the token breaks the contract.
	ErrMalformed = errors.New("malformed token")
	// ErrUnsupported: the operation cannot be fenced here.
	ErrUnsupported = errors.New("cannot be fenced")
	// ErrReadOnly: a shared token tried to write.
	ErrReadOnly = errors.New("shared token cannot write")
)

// RefusedError is behind every refusal of a token. Nothing was written: its
// outcome is Refused.
type RefusedError struct {
	// Reason is one of the sentinels of this package, or an error that wraps
	// one of them and says more.
	Reason error
	// Token is the token that was presented, as far as it could be read.
	Token Token
	// Mark is the mark that refused it; the zero Mark when none was looked at.
	Mark Mark
}

// Error names the reason, the token and the mark that refused it.
func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("fence: ")
	b.WriteString(e.Reason.Error())
	if e.Token.Number > 0 {
		b.WriteString(": ")
		b.WriteString(e.Token.Mode.String())
		b.WriteByte(' ')
		b.WriteString(strconv.FormatInt(e.Token.Number, 10))
	}
	if e.Token.Resource != "" {
		b.WriteString(" for ")
		b.WriteString(strconv.Quote(e.Token.Resource))
	}
	if e.Mark.Touched() {
		b.WriteString(" (mark: writer ")
		b.WriteString(strconv.FormatInt(e.Mark.Writer, 10))
		b.WriteString(", reader ")
		b.WriteString(strconv.FormatInt(e.Mark.Reader, 10))
		b.WriteString(", issuer ")
		b.WriteString(strconv.Quote(e.Mark.Issuer))
		b.WriteByte(')')
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// Outcome is Refused.
func (e *RefusedError) Outcome() Outcome { return Refused }

func refuse(m *Mark, t *Token, reason error) error {
	return &RefusedError{Reason: reason, Token: *t, Mark: *m}
}

// flawError says what is wrong with a malformed token.
type flawError struct{ flaw string }

func (e flawError) Error() string { return ErrMalformed.Error() + ": " + e.flaw }
func (e flawError) Unwrap() error { return ErrMalformed }

func malformed(t Token, flaw string) error {
	return &RefusedError{Reason: flawError{flaw}, Token: t}
}
