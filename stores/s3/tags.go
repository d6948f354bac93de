package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Tags returns the tags of an object; ErrNotFound if there is none.
func (s *Store) Tags(ctx context.Context, token guard.Token, key string) (map[string]string, error) {
	tags, err := s.tags(ctx, token, key)
	return tags, s.done(ctx, "read tags of", key, err)
}

func (s *Store) tags(ctx context.Context, token guard.Token, key string) (map[string]string, error) {
	if _, err := s.stat(ctx, token, key, &GetOptions{Unseen: true}); err != nil {
		return nil, err
	}
	return s.rawTags(ctx, key)
}

func (s *Store) rawTags(ctx context.Context, key string) (map[string]string, error) {
	t, err := s.core.GetObjectTagging(ctx, s.config.Bucket, key, minio.GetObjectTaggingOptions{})
	switch {
	case request.IsAbsent(err):
		return nil, ErrNotFound
	case request.IsCode(err, "NoSuchTagSet"):
		return map[string]string{}, nil
	case err != nil:
		return nil, fmt.Errorf("read tags of %q: %w", key, err)
	}
	return t.ToMap(), nil
}

// tagsOf returns the tags of a key in one state; ErrConflict if it is in
// another now.
func (s *Store) tagsOf(ctx context.Context, key string, info *minio.ObjectInfo) (map[string]string, error) {
	if info.UserTagCount == 0 {
		return nil, nil
	}
	tags, err := s.rawTags(ctx, key)
	if err != nil {
		return nil, err
	}
	state, _, err := s.glance(ctx, layout.Grant{}, key)
	if err == nil && state.ETag != info.ETag {
		err = fmt.Errorf("%w: while its tags were read", ErrConflict)
	}
	return tags, err
}

// SetTags gives an object these tags in place of those that it has; none removes
// them. S3's own PutObjectTagging cannot be fenced, for it names no state: the
// object is written again, with a new ETag and the payload passing through this
// process. ErrNotFound if there is none; what is written meanwhile ends it as it ends a
// Put.
func (s *Store) SetTags(ctx context.Context, token guard.Token, key string, tags map[string]string) (minio.UploadInfo, error) {
	info, err := s.setTags(ctx, token, key, tags)
	return info, s.done(ctx, "tag", key, err)
}

func (s *Store) setTags(ctx context.Context, token guard.Token, key string, tags map[string]string) (minio.UploadInfo, error) {
	var none minio.UploadInfo
	g, err := s.writer(ctx, token, key)
	if err != nil {
		return none, notApplied(err)
	}
	before, seen := s.known.Find(g, key)
	for try := 0; ; try++ {
		state, info, err := s.lookSince(ctx, g, key, before, seen)
		if err == nil {
			_, err = g.Decide(state, layout.Wish{Legacy: s.config.Legacy})
		}
		if err == nil && !state.Exists() {
			err = ErrNotFound
		}
		if err != nil {
			return none, notApplied(err)
		}
		p := payload.From(info.Size, func(ctx context.Context) (io.ReadCloser, error) { return s.raw(ctx, key, state) })
		o := asItIs(&info)
		o.UserTags = tags
		made, err := s.put(ctx, token, key, p, o, layout.Wish{Seen: state.ETag})
		if !errors.Is(err, ErrPrecondition) {
			return made, err
		}
		// Somebody has written it since it was looked at. The condition was not the
		// caller's, and is not told; what was written is, if it is not this holder's (I9).
		before, seen = state, true
		err = fmt.Errorf("%w: since the object was read", ErrConflict)
		if try+1 >= request.MaxConflicts {
			return none, notApplied(err)
		}
		if ended := request.Pause(ctx, try); ended != nil {
			return none, notApplied(errors.Join(ended, err))
		}
	}
}
