// Package guard is the rule of fencing tokens: what a token is, what a
// resource remembers of the tokens it has seen, and which it refuses.
//
// A lock on a lease cannot stop a holder that was paused past its lease. The
// resource can, if every grant carries a number that only rises and the
// resource records the highest it has seen:
//
//	client 1  acquires "orders", token 33 ──── long pause ──────────── writes with 33 ✗ refused
//	client 2            lease expires → acquires, token 34 → writes with 34 ✓ recorded
//	resource  highest token seen: 33 ............... 34
//
// A [Token] is what the lock hands out, a [Mark] what the resource remembers,
// [Admit] the decision. Everything here is pure: no I/O, no clock, no state.
// Guards for real resources (a database, an object store, a value inside the
// program) are built on it and make decision and write one atomic act; they
// are proved against guardtest.
//
// What is not guaranteed here: Admit alone fences nothing. A caller that
// decides first and writes afterwards has a gap between the two.
package guard
