package s3store

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// conditions makes the server judge the caller's conditions.
func (o *GetOptions) conditions(opts *minio.GetObjectOptions) {
	if o.IfMatch != "" && o.IfMatch != "*" { // any: if there is none, that is told anyhow
		_ = opts.SetMatchETag(o.IfMatch)
	}
	if o.IfNoneMatch != "" && o.IfNoneMatch != "*" {
		_ = opts.SetMatchETagExcept(o.IfNoneMatch)
	}
	if !o.IfModifiedSince.IsZero() && o.IfNoneMatch == "" { // else it does not count
		_ = opts.SetModified(o.IfModifiedSince.UTC())
	}
	if !o.IfUnmodifiedSince.IsZero() && o.IfMatch == "" {
		_ = opts.SetUnmodified(o.IfUnmodifiedSince.UTC())
	}
}

// condition tells what a condition means that the server found false: it may
// have judged a tombstone.
func (s *Store) condition(ctx context.Context, g layout.Grant, key string, o *GetOptions, err error) error {
	modified := request.IsStatus(err, http.StatusNotModified)
	if modified && o.IfNoneMatch != "" {
		return s.unchanged(ctx, g, key, o)
	}
	state, info, no := s.front(ctx, g, key, o)
	if no != nil {
		return no
	}
	if modified {
		s.told(g, key, o, state, o.judge(state.ETag, info.LastModified))
		return ErrNotModified
	}
	return fmt.Errorf("%w: %w", ErrPrecondition, err)
}

// unchanged is the answer to a holder who has named the ETag that is there: he has seen
// that state. If the store has not, it looks, once for each key, in case he writes.
func (s *Store) unchanged(ctx context.Context, g layout.Grant, key string, o *GetOptions) error {
	state, seen := s.known.State(key)
	if !seen || state.ETag != o.IfNoneMatch {
		if o.Unseen || g.Token.MayWrite() != nil {
			return ErrNotModified
		}
		var err error
		if state, _, err = s.glance(ctx, g, key); err != nil || state.ETag != o.IfNoneMatch {
			return ErrNotModified // a moment ago
		}
	}
	if err := s.readable(g, state); err != nil {
		return err
	}
	s.told(g, key, o, state, ErrNotModified)
	return ErrNotModified
}

// judge judges the caller's conditions as a server does.
func (o *GetOptions) judge(etag string, modified time.Time) error {
	modified = modified.Truncate(time.Second)
	switch {
	case o.IfMatch != "" && o.IfMatch != "*" && o.IfMatch != etag,
		o.IfMatch == "" && !o.IfUnmodifiedSince.IsZero() && modified.After(o.IfUnmodifiedSince):
		return ErrPrecondition
	case o.IfNoneMatch == "*", o.IfNoneMatch != "" && o.IfNoneMatch == etag,
		o.IfNoneMatch == "" && !o.IfModifiedSince.IsZero() && !modified.After(o.IfModifiedSince):
		return ErrNotModified
	}
	return nil
}
