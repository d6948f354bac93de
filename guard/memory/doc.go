// Package memory is a guard for resources inside one Go program: a value, a
// file, a device that only this program writes.
//
//	entry, err := g.Enter(ctx, token) // admits, by the rule of package guard
//	if err != nil {
//		return err // errors.Is(err, guard.ErrStale): the lock is lost
//	}
//	defer entry.Exit()
//	… read and write …
//
// Decision and write are one atomic act because a newer claim waits: it raises
// the mark at once, from then on older tokens are refused, and returns when
// those whom it ends have left (I1). Many may be inside under one token, or
// under several readers' tokens (I3).
//
// What is not guaranteed. Marks live as long as the Guard does, which is right
// for a resource that does not outlive it either; what does needs a guard that
// keeps the mark beside it. A Guard cannot make anybody leave: a holder that
// never calls Exit blocks its successors for as long as their contexts let
// them wait. A Guard admits readers and does not see what they do inside: to
// write, ask guard.Token.MayWrite too.
package memory
