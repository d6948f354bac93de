// Package locks is what every lock service offers here: a lock that comes
// with a fencing token.
//
// A [Locker] grants a [Lease] of a resource, exclusive or shared. The lease
// carries a guard.Token, whose number is above that of every grant it could
// conflict with, and a promise that ends at a time known locally:
//
//	          Acquire               renewals                Release
//	queued ───────────▶ held ─────────────────▶ held ─────────────────▶ over (ErrReleased)
//	   │                  │
//	   │ ctx ends         │ expired, revoked, deleted, not renewed in time
//	   ▼                  ▼
//	nothing left        over (ErrLost), Lost() closed at the latest at Deadline()
//
// [Do] runs a function under a lock: it cancels the function's context when
// the lease is lost and releases whatever happens.
//
// # Guarantees
//
// Numbers rise in the order of the grants, for each pair that excludes each
// other: writer and writer, writer and reader. Lost is closed by a local
// monotonic timer that was started before the last successful renewal was
// sent, so it needs nobody to say that the lease is over. A reply that got
// lost leaves neither a lock that nobody holds nor one with two holders (I8).
// A reader that comes after a waiting writer waits behind it: back-ends whose
// numbers are fixed when a waiter queues grant strictly first-come
// first-served.
//
// # Not guaranteed
//
// Mutual exclusion. A process that is paused, a machine that is suspended, a
// packet that is late: each outlives the lease it was sent under. That is what
// the token is for: present it with every write, to a resource that checks it.
// Lost and Deadline only keep an honest holder from useless work.
//
// Locks are not re-entrant: to acquire twice is to queue behind oneself.
//
// lockstest has the conformance suite that every back-end passes.
package locks
