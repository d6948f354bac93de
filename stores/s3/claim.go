package s3store

import (
	"context"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Claim raises the mark of the token's resource to token. Call it right after
// the lock was granted, before anything is read. Once it has returned, older
// tokens are refused to whoever claims them, and a key is closed to them from
// the first write or delete of it under token (I1): a request of an older
// holder that is still under way may reach a key that token has not written
// yet.
//
// A token that is no longer the newest is refused at once. A token already
// claimed is claimed again by one request. After an unknown outcome just call
// it again.
func (s *Store) Claim(ctx context.Context, token guard.Token) error {
	if err := token.Validate(); err != nil {
		return s.done(ctx, "claim", token.Resource, err)
	}
	s.claims.Forget(token)
	_, err := s.claimed(ctx, token)
	return s.done(ctx, "claim", token.Resource, err)
}

// ClaimAll claims those of tokens that this store has not claimed yet, and asks nobody
// about the others; one that is known to be stale is refused. It is for whoever is
// going to read what belongs to the resources of all of them.
func (s *Store) ClaimAll(ctx context.Context, tokens []guard.Token) error {
	for _, t := range tokens {
		if _, err := s.claimed(ctx, t); err != nil {
			return s.done(ctx, "claim", t.Resource, err)
		}
	}
	return nil
}

// claimed returns the grant of a token, claiming it if this store has not yet.
func (s *Store) claimed(ctx context.Context, token guard.Token) (layout.Grant, error) {
	if g, ok, err := s.claims.Find(token); ok {
		return g, err
	}
	if err := token.Validate(); err != nil {
		return layout.Grant{}, err
	}
	return s.claims.Once(ctx, token, s.claim)
}

func (s *Store) claim(ctx context.Context, token guard.Token) (layout.Grant, error) {
	if err := s.tested.Puts(ctx, s.parts); err != nil {
		return layout.Grant{}, notApplied(err)
	}
	mark, err := s.changeMark(ctx, token.Resource, func(o layout.MarkObject) (layout.MarkObject, bool, error) {
		return o.Claim(token)
	})
	if err != nil {
		return layout.Grant{}, err
	}
	return layout.NewGrant(token, mark.Generation), nil
}

// Mark returns what resource remembers; the zero Mark if nobody has ever
// claimed it.
func (s *Store) Mark(ctx context.Context, resource string) (guard.Mark, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return guard.Mark{}, err
	}
	o, _, err := s.marks.Read(ctx, resource)
	return o.Mark, err
}

// Adopt makes resource belong to issuer from now on: its numbers start again,
// in the next generation, and the tokens of its issuer so far are foreign. For
// operators, after the lock service was replaced. An issuer that the resource
// has, or had before, is refused with ErrIssuerUsed.
//
// Like a claim it reaches a key with the first write under a token of the new
// issuer. See that the old holders are gone.
func (s *Store) Adopt(ctx context.Context, resource, issuer string) error {
	err := guard.ValidateResource(resource)
	if err == nil {
		if err = s.tested.Puts(ctx, s.parts); err != nil {
			err = notApplied(err)
		}
	}
	if err == nil {
		var made layout.MarkObject
		_, err = s.changeMark(ctx, resource, func(o layout.MarkObject) (layout.MarkObject, bool, error) {
			is := o.Mark.Issuer == issuer && o.Mark.Generation == made.Mark.Generation
			was := slices.Contains(o.Former, issuer) && o.Mark.Generation > made.Mark.Generation
			if made.Mark.Touched() && (is || was) {
				return o, false, nil // it was carried out and the reply lost; perhaps another has followed
			}
			after, err := o.Adopt(issuer)
			made = after
			return after, true, err
		})
	}
	return s.done(ctx, "adopt", resource, err)
}

// changeMark changes the mark of resource, and remembers what it is then.
func (s *Store) changeMark(ctx context.Context, resource string,
	change func(layout.MarkObject) (layout.MarkObject, bool, error),
) (guard.Mark, error) {
	mark, err := s.marks.Change(ctx, resource, change)
	if err == nil {
		s.claims.Learn(resource, mark)
	}
	return mark, err
}
