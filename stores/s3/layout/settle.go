package layout

// Reply is what is known of a request from the answer to it, or from none.
type Reply uint8

const (
	// Lost: no answer, or one that leaves it open. The request may have been
	// carried out, and may yet arrive.
	Lost Reply = iota
	// Accepted: it was carried out.
	Accepted
	// Denied: it was not carried out and never will be.
	Denied
	// Spent is Denied because the upload that the request completes is gone.
	// Another request for the same upload, with the same nonce, may have been
	// carried out.
	Spent
)

// Then is what is known of a request that was sent again, while all that was
// known of it was r. It is Denied before anything was sent.
func (r Reply) Then(next Reply) Reply {
	if r == Denied || next == Accepted {
		return next
	}
	return r
}

// Fate is what became of a write.
type Fate uint8

const (
	// Unknown: it was carried out and overwritten since, or never carried out.
	Unknown Fate = iota
	// Applied: it was carried out.
	Applied
	// Failed: it was not carried out and never will be.
	Failed
	// Pending: it was not carried out so far. The same request may be sent
	// again: both name the same state, so at most one is carried out.
	Pending
)

// Settle says what became of a write of nonce under the grant that named
// sent, from its reply and from a look at the key after the reply, or after it
// was given up, that saw now. An accepted write needs no look.
func (g Grant) Settle(sent Condition, nonce Nonce, reply Reply, now State) Fate {
	switch {
	case reply == Accepted, g.Wrote(now.Header) && now.Header.Nonce == nonce:
		return Applied
	case reply == Denied:
		return Failed
	case reply == Spent:
		if now.Absent() || g.Outranks(now) { // the nonce has never been here
			return Failed
		}
		return Unknown
	case sent.Holds(now):
		return Pending
	case g.Outranks(now):
		// Whoever wrote this could not have overwritten ours.
		return Failed
	}
	return Unknown
}

// Outranks reports whether s was written under an older token of the same
// resource, one that a key written under g would have refused.
func (g Grant) Outranks(s State) bool {
	h := s.Header
	return h.Number > 0 && h.Resource == g.resource &&
		(h.Generation < g.Generation || h.Generation == g.Generation && h.Number < g.Token.Number)
}
