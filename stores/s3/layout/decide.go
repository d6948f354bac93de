package layout

import (
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/guard"
)

// State is what was seen of a key at one moment.
type State struct {
	// ETag names the state, as the store does; empty if there is no object.
	ETag string
	// Header is that of a framed object, the zero Header otherwise.
	Header Header
}

// Absent reports whether there was no object.
func (s State) Absent() bool { return s.ETag == "" }

// Live reports whether there was a framed object with a payload.
func (s State) Live() bool { return s.Header.Kind == Live }

// Deleted reports whether there was a tombstone.
func (s State) Deleted() bool { return s.Header.Kind == Tombstone }

// Bare reports whether there was an object that is not framed.
func (s State) Bare() bool { return !s.Absent() && s.Header == Header{} }

// Exists reports whether there was what a client calls an object.
func (s State) Exists() bool { return s.Live() || s.Bare() }

// Grant is a token that has been claimed.
type Grant struct {
	// Token is the token.
	Token guard.Token
	// Generation is that of the mark when the token was claimed.
	Generation uint32

	resource, issuer, holder Digest
}

// NewGrant returns the grant of a token claimed at a mark of generation.
func NewGrant(t guard.Token, generation uint32) Grant {
	return Grant{t, generation, DigestOf(t.Resource), DigestOf(t.Issuer), DigestOf(t.Holder)}
}

// Header returns the header of a write under the grant.
func (g Grant) Header(kind Kind, nonce Nonce) Header {
	return Header{kind, g.Generation, g.Token.Number, nonce, g.resource, g.issuer, g.holder}
}

// Wrote reports whether h was written under this very grant.
func (g Grant) Wrote(h Header) bool { return h == g.Header(h.Kind, h.Nonce) }

// Admits decides whether the state of a key admits the grant, to read or to
// write: nil, or a *guard.RefusedError. Absent and bare keys, and those of an
// earlier generation, admit everybody.
func (g Grant) Admits(s State) error {
	h := s.Header
	switch {
	case h == Header{}:
		return nil
	case h.Resource != g.resource:
		return g.refuse(fmt.Errorf("%w: key belongs to another resource", guard.ErrNoToken), guard.Mark{})
	case h.Generation < g.Generation:
		return nil
	}
	// The rule, with names where the header has digests of them.
	mark := guard.Mark{Issuer: unlike(g.Token.Issuer), Generation: h.Generation, Writer: h.Number, Holder: unlike(g.Token.Holder)}
	if h.Issuer == g.issuer {
		mark.Issuer = g.Token.Issuer
	}
	if h.Holder == g.holder {
		mark.Holder = g.Token.Holder
	}
	reason := guard.ErrForeign
	if h.Generation == g.Generation {
		_, err := guard.Admit(mark, g.Token)
		var refused *guard.RefusedError
		if !errors.As(err, &refused) {
			return err
		}
		reason = refused.Reason
	}
	if h.Issuer != g.issuer {
		mark.Issuer = ""
	}
	if h.Holder != g.holder {
		mark.Holder = ""
	}
	return g.refuse(reason, mark)
}

func (g Grant) refuse(reason error, mark guard.Mark) error {
	return &guard.RefusedError{Reason: reason, Token: g.Token, Mark: mark}
}

// unlike returns a valid id that is not id, for one that is not known.
func unlike(id string) string {
	if id == "_" {
		return "__"
	}
	return "_"
}

// Wish is what a client wants to do to a key, and under which conditions of
// its own. The zero Wish is an unconditional write.
type Wish struct {
	// Delete: a tombstone instead of a payload.
	Delete bool
	// IfMatch is the ETag that the object must have, "*" for any; "" for no
	// such condition.
	IfMatch string
	// IfAbsent: there must be no object.
	IfAbsent bool
	// Seen is the ETag of the one state that the key may be in, a tombstone's too;
	// "" for no such condition.
	Seen string
	// Legacy: an object that is not framed may be overwritten.
	Legacy bool
	// From: what belongs to this resource may be overwritten as well, and
	// belongs to the grant's from then on.
	From Digest
}

// Names reports whether the wish names the one state that it is meant for, or that
// there is to be no object, and so overwrites nothing blindly.
func (w Wish) Names() bool {
	return w.IfAbsent || w.Seen != "" || w.IfMatch != "" && w.IfMatch != "*"
}

// Condition is what a request names so that it is carried out in one state of
// the key only: the ETag, or that there is no object.
type Condition struct {
	// ETag is sent as If-Match; if it is empty, If-None-Match: * is sent.
	ETag string
	// Nothing: there is nothing to do, and no request to send.
	Nothing bool
}

// Holds reports whether the request would still be carried out in state s.
func (c Condition) Holds(s State) bool { return c.ETag == s.ETag }

// ErrPrecondition says that the caller's own condition is false.
var ErrPrecondition = errors.New("precondition failed")

// Decide says which request may be sent for wish after a look at the key that
// saw s, or why none: a *guard.RefusedError, ErrPrecondition, or ErrBare.
// What was refused is not to be sent, whatever the client's conditions are.
func (g Grant) Decide(s State, w Wish) (Condition, error) {
	if err := g.Token.MayWrite(); err != nil {
		return Condition{}, err
	}
	if moves := w.From != (Digest{}) && w.From != g.resource && s.Header.Resource == w.From; !moves {
		if err := g.Admits(s); err != nil {
			return Condition{}, err
		}
	}
	switch {
	case s.Bare() && !w.Legacy:
		return Condition{}, g.refuse(fmt.Errorf("%w: %w", guard.ErrUnsupported, ErrBare), guard.Mark{})
	case w.IfAbsent && s.Exists(),
		w.IfMatch != "" && !s.Exists(),
		w.IfMatch != "" && w.IfMatch != "*" && w.IfMatch != s.ETag,
		w.Seen != "" && w.Seen != s.ETag:
		return Condition{}, ErrPrecondition
	}
	// A tombstone of somebody else's is written again, and so is one where
	// nothing is: older requests that name what is there now must not find it.
	return Condition{ETag: s.ETag, Nothing: w.Delete && s.Deleted() && g.Wrote(s.Header)}, nil
}
