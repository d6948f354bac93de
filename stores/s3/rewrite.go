package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Progress is how far a Frame or a Rebind has come.
type Progress struct {
	// Key is the last one that was looked at, and Err why it could not be done.
	Key string
	Err error
	// Changed, Skipped and Failed count the keys so far; Bytes those of the
	// payloads that were written again.
	Changed, Skipped, Failed int
	Bytes                    int64
}

// Frame frames the objects under prefix that are not framed, where they are,
// under token: bytes, metadata and tags stay, and ETags change. Those that
// are framed already are skipped, so it may be run again. It goes on after an object
// that could not be done, tells report of each key, and returns the first error.
//
// Nobody else may write there who does not go through the fence, before,
// during or after it.
func (s *Store) Frame(ctx context.Context, token guard.Token, prefix string, report func(Progress)) error {
	return s.done(ctx, "frame", prefix, s.rewrite(ctx, token, prefix, report, layout.Wish{Legacy: true},
		func(state layout.State) bool { return state.Bare() }))
}

// Rebind gives the keys under prefix that belong to the resource from to the
// resource of token, tombstones included. It claims token, and writes each again under token and
// reports like Frame. From then on tokens of the resource from are refused there:
// see that its holders are gone.
func (s *Store) Rebind(ctx context.Context, token guard.Token, prefix, from string, report func(Progress)) error {
	owner := layout.DigestOf(from)
	return s.done(ctx, "rebind", prefix, s.rewrite(ctx, token, prefix, report, layout.Wish{From: owner},
		func(state layout.State) bool { return state.Header.Resource == owner && state.Header.Number > 0 }))
}

func (s *Store) rewrite(ctx context.Context, token guard.Token, prefix string, report func(Progress), wish layout.Wish, which func(layout.State) bool) error {
	if report == nil {
		report = func(Progress) {}
	}
	// Anew, for a key that had gone to another resource does not tell any more
	// whom it was closed to.
	err := errors.Join(token.Validate(), token.MayWrite())
	if err == nil {
		s.claims.Forget(token)
		_, err = s.claimed(ctx, token)
	}
	if err != nil {
		return notApplied(err)
	}
	var p Progress
	var failed error
	for page, err := range s.pages(ctx, ListOptions{Prefix: prefix, Recursive: true}) {
		if err != nil {
			return err
		}
		for i := range page {
			if layout.Reserved(page[i].Key) {
				continue
			}
			p.Key = page[i].Key
			var size int64
			var changed bool
			size, changed, p.Err = s.rewriteOne(ctx, token, p.Key, wish, which)
			switch {
			case p.Err != nil && ctx.Err() != nil:
				return p.Err
			case p.Err != nil:
				p.Failed++
				if failed == nil {
					failed = fmt.Errorf("%q: %w", p.Key, p.Err)
				}
			case changed:
				p.Changed, p.Bytes = p.Changed+1, p.Bytes+size
			default:
				p.Skipped++
			}
			report(p)
		}
	}
	if failed != nil {
		return fmt.Errorf("%d of %d keys failed, first %w", p.Failed, p.Failed+p.Changed+p.Skipped, failed)
	}
	return nil
}

// rewriteOne writes a key again as it is, if it is one of those: in the state that was
// looked at and in no other, or a tombstone would be put where an object is by then.
func (s *Store) rewriteOne(ctx context.Context, token guard.Token, key string, wish layout.Wish, which func(layout.State) bool) (int64, bool, error) {
	g, err := s.writer(ctx, token, key)
	if err != nil {
		return 0, false, err
	}
	state, info, err := s.glance(ctx, g, key)
	if err != nil || !which(state) {
		return 0, false, err
	}
	s.saw(g, key, state)
	wish.Seen = state.ETag
	if state.Deleted() {
		wish.Delete = true
		w := &write{store: s, grant: g, key: key, wish: wish, cargo: &single{store: s, key: key, payload: payload.Empty()}}
		_, err = w.run(ctx)
	} else {
		err = s.putAgain(ctx, token, key, state, info, wish)
	}
	if errors.Is(err, ErrPrecondition) {
		err = notApplied(fmt.Errorf("%w: since the key was looked at", ErrConflict)) // the condition was not the caller's
	}
	return info.Size, true, err
}

// putAgain is rewriteOne for an object.
func (s *Store) putAgain(ctx context.Context, token guard.Token, key string, state layout.State, info minio.ObjectInfo, wish layout.Wish) error {
	p := payload.From(info.Size, func(ctx context.Context) (io.ReadCloser, error) { return s.raw(ctx, key, state) })
	o := asItIs(&info)
	var err error
	if o.UserTags, err = s.tagsOf(ctx, key, &info); err != nil {
		return notApplied(err)
	}
	_, err = s.put(ctx, token, key, p, o, wish)
	return err
}

// asItIs is likeSource for an object that is written again in its place: how it
// is kept stays too.
func asItIs(info *minio.ObjectInfo) PutOptions {
	o := likeSource(PutOptions{}, info)
	if class := info.Metadata.Get("X-Amz-Storage-Class"); class != "STANDARD" {
		o.StorageClass = class
	}
	if info.Metadata.Get("X-Amz-Server-Side-Encryption") == "aws:kms" {
		if sse, err := encrypt.NewSSEKMS(info.Metadata.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"), nil); err == nil {
			o.ServerSideEncryption = sse
		}
	}
	return o
}

// raw reads the payload of a key in one state, whoever it belongs to.
func (s *Store) raw(ctx context.Context, key string, state layout.State) (io.ReadCloser, error) {
	var opts minio.GetObjectOptions
	_ = opts.SetMatchETag(state.ETag) // there is one
	body, _, _, err := s.objects.GetObject(ctx, s.config.Bucket, key, opts)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	if state.Live() {
		if _, err := io.CopyN(io.Discard, body, layout.HeaderSize); err != nil {
			body.Close()
			return nil, fmt.Errorf("read %q: %w", key, err)
		}
	}
	return body, nil
}
