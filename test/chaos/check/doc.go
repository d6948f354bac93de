// Package check finds in a history what must not happen, by comparing what
// writers were told with what the resource itself remembers.
//
// It is pure. A Case is one register: the Ops of all who used it, and the chain of
// the writes that were applied, in their order. Each check is about one
// invariant of docs/architecture.md:
//
//	stale.go      I1  a write under a lower number was applied
//	told.go       I2  acknowledged and not there, or refused and there
//	current.go    I3  the current holder was refused
//	marked.go     I6  the mark is below a number that was claimed
//	claims.go     I4  a claim took too long; I8  two holders with one number
//	overwrite.go  I9  overwritten by one who had read the state before it
//	register.go       the register as a whole is not linearizable
package check
