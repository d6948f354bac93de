package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

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
	s.claims.forget(token)
	_, err := s.claimed(ctx, token)
	return s.done(ctx, "claim", token.Resource, err)
}

// claimed returns the grant of a token, claiming it if this store has not yet.
func (s *Store) claimed(ctx context.Context, token guard.Token) (layout.Grant, error) {
	if g, ok, err := s.claims.find(token); ok {
		return g, err
	}
	if err := token.Validate(); err != nil {
		return layout.Grant{}, err
	}
	return s.claims.once(ctx, token, s.claim)
}

func (s *Store) claim(ctx context.Context, token guard.Token) (layout.Grant, error) {
	if err := s.testPuts(ctx); err != nil {
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
	o, _, err := s.readMark(ctx, resource)
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
		if err = s.testPuts(ctx); err != nil {
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

// changeMark reads the mark of resource and replaces it by what change makes
// of it, if nobody else has in between, over and over until one of the two is
// done or ctx ends.
func (s *Store) changeMark(ctx context.Context, resource string,
	change func(layout.MarkObject) (layout.MarkObject, bool, error),
) (guard.Mark, error) {
	reply := layout.Denied // to whatever was sent
	for try := 0; ; try++ {
		o, etag, err := s.readMark(ctx, resource)
		if err == nil {
			after, changed, no := change(o)
			if no != nil {
				return o.Mark, notApplied(no)
			}
			if changed {
				var r layout.Reply
				r, err = s.writeMark(ctx, after, etag)
				reply = reply.Then(r)
			}
			if err == nil {
				s.claims.learn(resource, after.Mark)
				return after.Mark, nil
			}
			if overtaken(err) {
				try = 0 // somebody else was faster, and has come further
			}
		}
		if err = s.giveUp(ctx, try, err); err != nil {
			if reply == layout.Lost {
				return o.Mark, guard.WithOutcome(err, guard.Unknown)
			}
			return o.Mark, notApplied(err)
		}
	}
}

// overtaken reports whether a request was not carried out because the state
// that it names is gone.
func overtaken(err error) bool {
	return isStatus(err, http.StatusPreconditionFailed) || isStatus(err, http.StatusConflict) || isAbsent(err)
}

// maxTries is how often a request that fails for no reason of its own is sent.
const maxTries = 4

// giveUp waits before err is tried again, or returns what ends the tries.
func (s *Store) giveUp(ctx context.Context, try int, err error) error {
	r, answered := responseOf(err)
	if hopeless := answered && final(r.StatusCode) && !overtaken(err); hopeless || errors.Is(err, layout.ErrBadMark) || guard.OutcomeOf(err) == guard.Refused || try+1 >= maxTries {
		return err
	}
	if ended := pause(ctx, try); ended != nil {
		return errors.Join(ended, err)
	}
	return nil
}

// readMark returns the mark object of resource with its ETag, both zero but for
// the name if there is none.
func (s *Store) readMark(ctx context.Context, resource string) (layout.MarkObject, string, error) {
	none := layout.MarkObject{Resource: resource}
	body, info, _, err := s.core.GetObject(ctx, s.config.Bucket, layout.MarkKey(resource), minio.GetObjectOptions{})
	if isAbsent(err) {
		return none, "", nil
	}
	if err != nil {
		return none, "", fmt.Errorf("read mark of %q: %w", resource, err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, layout.MaxMarkSize+1))
	if err != nil {
		return none, "", fmt.Errorf("read mark of %q: %w", resource, err)
	}
	o, err := layout.ParseMark(data, resource)
	if err != nil {
		return none, "", fmt.Errorf("read mark of %q: %w", resource, err)
	}
	if info.ETag == "" { // it could never be replaced
		return none, "", fmt.Errorf("read mark of %q: %w", resource, unsupported(guard.Token{}, errNoETag))
	}
	return o, info.ETag, nil
}

func (s *Store) writeMark(ctx context.Context, o layout.MarkObject, etag string) (layout.Reply, error) {
	data := o.Bytes()
	if len(data) > layout.MaxMarkSize {
		return layout.Denied, fmt.Errorf("mark of %q: too many issuers", o.Resource)
	}
	opts := minio.PutObjectOptions{ContentType: "application/json"}
	condition(&opts, layout.Condition{ETag: etag})
	ctx, w := watch(ctx)
	b := newBody(bytes.NewReader(data), int64(len(data)))
	_, err := s.core.PutObject(ctx, s.config.Bucket, layout.MarkKey(o.Resource), b, int64(len(data)), "", "", opts)
	if err != nil {
		err = fmt.Errorf("write mark of %q: %w", o.Resource, err)
	}
	unread, _ := b.stop()
	return w.reply(err, unread > 0), err
}

// condition makes a request name the state that it is meant for.
func condition(opts *minio.PutObjectOptions, c layout.Condition) {
	if c.ETag == "" {
		opts.SetMatchETagExcept("*")
		return
	}
	opts.SetMatchETag(c.ETag)
}
