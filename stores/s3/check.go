package s3store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// CheckOptions tell Check of the write that is to follow.
type CheckOptions struct {
	// IfMatch and IfNoneMatch are the conditions that it will have, as in
	// PutOptions. They are not judged: that is the write's business.
	IfMatch, IfNoneMatch string
	// Part: it is a part of an upload, and overwrites nothing.
	Part bool
}

// Check tells whether a write of key under token would be admitted now: nil, or
// the refusal, or ErrOlderWrite if it would overwrite blindly what was written under an
// older token since this store last saw the key under this one. It looks at the mark
// of the resource and at the key, both at the same time, and claims token if this store
// has not yet. It is for refusing a write before its payload is read, and no fence: what
// it has seen may change before the write, which decides for itself.
//
// The write that follows it is one request, for the key's state is known.
func (s *Store) Check(ctx context.Context, token guard.Token, key string, o CheckOptions) error {
	wish := layout.Wish{IfMatch: unquoted(o.IfMatch), IfAbsent: o.IfNoneMatch != "", Legacy: s.config.Legacy}
	look := func(ctx context.Context, g layout.Grant) error { return s.checkKey(ctx, g, key, wish) }
	if o.Part {
		look = func(ctx context.Context, g layout.Grant) error { return s.admits(ctx, g, key) }
	}
	return s.done(ctx, "check", key, s.check(ctx, token, key, look))
}

// check looks at the mark and, by look, at the key.
func (s *Store) check(ctx context.Context, token guard.Token, key string, look func(context.Context, layout.Grant) error) error {
	_, seen, _ := s.claims.Find(token)
	g, err := s.writer(ctx, token, key)
	if err != nil {
		return notApplied(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	if seen { // otherwise the claim has just read it
		group.Go(func() error { return s.checkMark(ctx, token) })
	}
	group.Go(func() error { return look(ctx, g) })
	if err := group.Wait(); err != nil {
		return notApplied(err)
	}
	return nil
}

func (s *Store) checkMark(ctx context.Context, token guard.Token) error {
	o, _, err := s.marks.Read(ctx, token.Resource)
	if err != nil {
		return err
	}
	s.claims.Learn(token.Resource, o.Mark)
	err = guard.Claimed(o.Mark, token)
	if errors.Is(err, guard.ErrUnclaimed) { // it was claimed: the mark is gone, or an older one was put back
		s.claims.Forget(token)
		_, err = s.claimed(ctx, token)
	}
	return err
}

// checkKey looks whether the key may be written under g.
func (s *Store) checkKey(ctx context.Context, g layout.Grant, key string, w layout.Wish) error {
	state, _, err := s.lookAgain(ctx, g, key, w)
	if err != nil {
		return err
	}
	_, err = g.Decide(state, layout.Wish{Legacy: s.config.Legacy})
	return err
}

// admits is checkKey for what does not overwrite the key: the look tells the holder
// nothing of it, and so counts for nothing.
func (s *Store) admits(ctx context.Context, g layout.Grant, key string) error {
	state, _, err := s.glance(ctx, g, key)
	if err == nil {
		_, err = g.Decide(state, layout.Wish{Legacy: s.config.Legacy})
	}
	return err
}

// lookAgain is look for a write that was not asked for a condition yet. If the
// state is another one than g has seen, and not by g, that is what the write would
// have failed with: the look must not be what makes it overwrite (I9). A write whose own
// condition names the state has seen it elsewhere; if it names another one, that is what
// the write fails with, and until then nothing was told.
func (s *Store) lookAgain(ctx context.Context, g layout.Grant, key string, w layout.Wish) (layout.State, minio.ObjectInfo, error) {
	before, seen := s.known.Find(g, key)
	if !w.Names() {
		return s.lookSince(ctx, g, key, before, seen)
	}
	state, info, err := s.glance(ctx, g, key)
	if err == nil {
		if _, unmet := g.Decide(state, w); unmet == nil || g.Wrote(state.Header) {
			s.saw(g, key, state)
		}
	}
	return state, info, err
}

// lookSince is lookAgain for a blind write, and a state that g has seen before.
func (s *Store) lookSince(ctx context.Context, g layout.Grant, key string, before layout.State, seen bool) (layout.State, minio.ObjectInfo, error) {
	state, info, err := s.look(ctx, g, key)
	if err != nil || !seen || state == before || g.Wrote(state.Header) {
		return state, info, err
	}
	if err := g.Admits(state); err != nil {
		return state, info, err
	}
	return state, info, fmt.Errorf("%w: since the key was seen", ErrOlderWrite)
}

// Choose returns the one of several tokens that key is written and read under: the
// one of the resource that Config.Prefixes binds the key to, or else of the one
// that last wrote it, as far as this store remembers, which asks the server if it
// remembers nothing. If there is none it is guard.ErrNoToken. A single token is
// returned as it is.
func (s *Store) Choose(ctx context.Context, tokens []guard.Token, key string) (guard.Token, error) {
	token, err := s.choose(ctx, tokens, key, false)
	return token, s.done(ctx, "choose token for", key, err)
}

// ChooseAgain is Choose after the token that it returned was refused with
// guard.ErrNoToken: the key may have gone to another resource. It asks the server.
func (s *Store) ChooseAgain(ctx context.Context, tokens []guard.Token, key string) (guard.Token, error) {
	token, err := s.choose(ctx, tokens, key, true)
	return token, s.done(ctx, "choose token for", key, err)
}

func (s *Store) choose(ctx context.Context, tokens []guard.Token, key string, ask bool) (guard.Token, error) {
	switch len(tokens) {
	case 0:
		return guard.Token{}, refuse(guard.Token{}, guard.ErrNoToken)
	case 1:
		return tokens[0], nil
	}
	if resource, bound := s.ResourceOf(key); bound {
		if i := slices.IndexFunc(tokens, func(t guard.Token) bool { return t.Resource == resource }); i >= 0 {
			return tokens[i], nil
		}
		return guard.Token{}, refuse(guard.Token{}, fmt.Errorf("%w: key belongs to %q", guard.ErrNoToken, resource))
	}
	if layout.Reserved(key) {
		return guard.Token{}, refuse(guard.Token{}, errReserved)
	}
	owner := func(state layout.State) int {
		return slices.IndexFunc(tokens, func(t guard.Token) bool { return layout.DigestOf(t.Resource) == state.Header.Resource })
	}
	if state, seen := s.known.State(key); seen && !ask {
		if i := owner(state); i >= 0 {
			return tokens[i], nil
		}
	}
	state, _, err := s.glance(ctx, layout.Grant{}, key)
	if err != nil {
		return guard.Token{}, notApplied(err)
	}
	if i := owner(state); i >= 0 {
		return tokens[i], nil
	}
	return guard.Token{}, refuse(guard.Token{}, fmt.Errorf("%w: several tokens, and key belongs to none of their resources", guard.ErrNoToken))
}
