package locks

import (
	"context"
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

// ErrIssuerChanged is returned by RotateIssuer if the issuer is not, or not any
// more, the one to be replaced. Nothing was changed.
var ErrIssuerChanged = errors.New("issuer is another one by now")

// StatusLocker is a Locker that tells who holds a lock and who waits for it.
type StatusLocker interface {
	Locker
	// Status is what the lock service knows of the lock of resource. It only
	// reads: nothing is created, renewed or removed, and what is over is told
	// as it is found. It asks for itself, also when the Locker holds nothing.
	// The error matches guard.ErrMalformed if resource is not the name of one.
	Status(ctx context.Context, resource string) (Status, error)
}

// IssuerLocker is a Locker whose issuer is kept in the lock service, and lost or
// set back with it.
type IssuerLocker interface {
	Locker
	// Issuer is the issuer of the next grant, "" if that is yet to be made. It
	// is told as it is found, also if no token could have it.
	Issuer(ctx context.Context) (string, error)
	// RotateIssuer replaces the issuer old, "" for none, by a new one, which it
	// returns; if another one is there it returns ErrIssuerChanged. Who begins
	// to acquire after that gets the new one, who is waiting either, and leases
	// that are held keep theirs; of two grants that exclude each other the later
	// one does not have the older issuer. With any other error it is not known
	// whether the issuer was replaced.
	RotateIssuer(ctx context.Context, old string) (string, error)
}

// Status is a lock as the lock service knows it, all at one moment unless its
// Locker says otherwise.
type Status struct {
	// Resource is the name of what the lock protects.
	Resource string
	// Issuer is the issuer of the next grant; "" if that is yet to be made.
	Issuer string
	// Holders are one writer, or readers, in the order of their numbers.
	Holders []Place
	// Waiters are first come, first.
	Waiters []Place
}

// Place is the place of one acquisition at a lock: its holder's, or a waiter's.
type Place struct {
	Mode guard.Mode
	// Holder is the random id of the acquisition.
	Holder string
	// Number is that of the token; 0 if the grant is yet to make it.
	Number int64
	// Issuer is that of the token; "" of a waiter, and where the lock service
	// does not tell which it was: the issuer has changed since the acquisition
	// began.
	Issuer string
	// Session is what ends the place with its end, by the lock service's own
	// name; "" where places end by themselves.
	Session string
	// Left is how long the place is kept if its process gives no further sign of
	// life. With Timed false the lock service does not tell.
	Left  time.Duration
	Timed bool
}

// Expired reports whether the time of p is over and the lock service has not
// removed it yet; it does so before the next grant.
func (p Place) Expired() bool { return p.Timed && p.Left <= 0 }

// Token is the token of p, a holder of resource, if all of it is known.
func (p Place) Token(resource string) (guard.Token, bool) {
	token := guard.Token{Resource: resource, Number: p.Number, Mode: p.Mode, Holder: p.Holder, Issuer: p.Issuer}
	return token, p.Issuer != "" && token.Validate() == nil
}
