package guardtest

import (
	"context"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Target is a kind of guarded resource under test. It is used by many
// goroutines at once. Its errors are those of the guard: a refusal matches a
// sentinel of package guard, and guard.OutcomeOf tells of each what became of
// the write.
type Target interface {
	// NewResource returns the name of a resource that nobody has claimed, ready
	// to be written.
	NewResource(ctx context.Context) (string, error)
	// Claim claims t, and returns when it is claimed (I1).
	Claim(ctx context.Context, t guard.Token) error
	// Write adds value to what was written to t's resource, under t, check and
	// write in one atomic act. No two writes have the same value. A target
	// whose writes claim by themselves may admit a token nobody has claimed;
	// the others refuse it as guard.ErrUnclaimed.
	Write(ctx context.Context, t guard.Token, value string) error
	// Written returns every value that was written to resource, in any order.
	Written(ctx context.Context, resource string) ([]string, error)
}

// The interfaces below are what only some targets can do. Exercise looks for
// each and runs what it makes possible.

// Checker is a Target that can be asked to check a token and nothing else.
type Checker interface {
	// Check decides whether t is claimed.
	Check(ctx context.Context, t guard.Token) error
}

// Marker is a Target whose marks can be read.
type Marker interface {
	// Mark returns the mark of resource, the zero Mark if it was never claimed.
	Mark(ctx context.Context, resource string) (guard.Mark, error)
}

// Adopter is a Target whose resources can be adopted.
type Adopter interface {
	// Adopt makes resource belong to issuer.
	Adopt(ctx context.Context, resource, issuer string) error
}

// Opener is a Target whose writes are longer than one call.
type Opener interface {
	// Open does a write of value under t but for its last step, and returns
	// that: finish, which is called once, and whose error is that of the write.
	// A transaction up to its COMMIT is an example.
	Open(ctx context.Context, t guard.Token, value string) (finish func(context.Context) error, err error)
}

// Entrant is a Target that lets the holder of a token in, so that a newer
// claim waits until it has left.
type Entrant interface {
	// Enter claims or checks t and returns an entry. Ctx bounds Enter alone.
	Enter(ctx context.Context, t guard.Token) (guard.Entry, error)
}
