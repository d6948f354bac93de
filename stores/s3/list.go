package s3store

import (
	"context"
	"errors"
	"iter"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// ListOptions are the options of one listing, as of minio.ListObjectsOptions.
type ListOptions struct {
	// Prefix is what the keys start with.
	Prefix string
	// Recursive lists all keys. Defaults to false: keys that have a "/" behind
	// the prefix are listed as one common prefix, which ends in "/".
	Recursive bool
	// StartAfter lists only keys behind this one.
	StartAfter string
	// MaxKeys is how many keys are asked for at a time. Defaults to the
	// server's, 1000.
	MaxKeys int
}

// List lists objects under token in the order of their keys, a page of the
// server's at a time as the loop goes on; the common prefixes of a page come
// behind its objects, as in minio-go. Tombstones are left out; a common prefix
// is listed even if nothing but tombstones is under it. An error that comes with a key is
// about that object alone, one without ends the list.
//
// Without Config.Legacy an object that is not framed is only noticed, with an
// error that matches guard.ErrUnsupported, if it is too small to be framed or
// has no ETag.
func (s *Store) List(ctx context.Context, token guard.Token, o ListOptions) iter.Seq2[minio.ObjectInfo, error] {
	return func(yield func(minio.ObjectInfo, error) bool) {
		g, err := s.reader(ctx, token, "")
		if err != nil {
			yield(minio.ObjectInfo{}, s.done(ctx, "list", o.Prefix, err))
			return
		}
		for page, err := range s.pages(ctx, o) {
			if err != nil {
				yield(minio.ObjectInfo{}, s.done(ctx, "list", o.Prefix, err))
				return
			}
			if s.config.Legacy {
				if err := s.lookAt(ctx, g, page); err != nil {
					yield(minio.ObjectInfo{}, s.done(ctx, "list", o.Prefix, err))
					return
				}
			}
			for i := range page {
				if page[i].hidden {
					continue
				}
				err := page[i].err
				if err != nil {
					if guard.OutcomeOf(err) != guard.Refused {
						err = unsupported(token, err)
					}
					err = s.done(ctx, "list", page[i].Key, err)
				}
				if !yield(page[i].ObjectInfo, err) {
					return
				}
			}
		}
	}
}

// entry is one entry of a listing.
type entry struct {
	minio.ObjectInfo
	size   int64 // of the object
	hidden bool  // a tombstone, or the fence's own
	err    error
}

func (e *entry) isPrefix() bool { return e.ETag == "" && e.LastModified.IsZero() }

// pageSize is how many entries are looked at together.
const pageSize = 128

// pages lists what is there, judged by its size.
func (s *Store) pages(ctx context.Context, o ListOptions) iter.Seq2[[]entry, error] {
	return func(yield func([]entry, error) bool) {
		page := make([]entry, 0, pageSize)
		for info := range s.core.ListObjectsIter(ctx, s.config.Bucket, minio.ListObjectsOptions{
			Prefix: o.Prefix, Recursive: o.Recursive, StartAfter: o.StartAfter, MaxKeys: o.MaxKeys,
		}) {
			if info.Err != nil {
				yield(nil, info.Err)
				return
			}
			if page = append(page, judgeBySize(info)); len(page) == pageSize {
				if !yield(page, nil) {
					return
				}
				page = page[:0]
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		} else if len(page) > 0 {
			yield(page, nil)
		}
	}
}

func judgeBySize(info minio.ObjectInfo) entry {
	e := entry{ObjectInfo: info, size: info.Size}
	switch {
	case layout.Reserved(info.Key):
		e.hidden = true
	case e.isPrefix():
	case info.ETag == "":
		e.err = errNoETag
	case info.Size == layout.TombstoneSize:
		e.hidden = true
	case info.Size < layout.HeaderSize:
		e.err = layout.ErrBare
	default:
		reframe(&e.ObjectInfo, layout.State{Header: layout.Header{Kind: layout.Live}}, info.Size)
	}
	return e
}

// lookAt looks at the first bytes of the objects whose size does not tell what
// they are, several at once.
func (s *Store) lookAt(ctx context.Context, g layout.Grant, page []entry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.config.Parallel, 1))
	for i := range page {
		e := &page[i]
		if layout.Reserved(e.Key) || e.isPrefix() {
			continue
		}
		if errors.Is(e.err, layout.ErrBare) { // it is too small to be anything else
			e.err = nil
			continue
		}
		if e.err != nil {
			continue
		}
		group.Go(func() error { return s.lookAtOne(ctx, g, e) })
	}
	return group.Wait()
}

func (s *Store) lookAtOne(ctx context.Context, g layout.Grant, e *entry) error {
	state, seen := s.known.state(e.Key)
	if seen && state.ETag == e.ETag {
		e.Size = e.size
		reframe(&e.ObjectInfo, state, e.size)
	} else {
		var info minio.ObjectInfo
		var err error
		if state, info, err = s.look(ctx, g, e.Key); guard.OutcomeOf(err) == guard.Refused { // it is damaged
			e.hidden, e.err = false, err
			return nil
		} else if err != nil {
			return err
		}
		e.ETag, e.Size, e.LastModified = info.ETag, info.Size, info.LastModified
	}
	e.hidden = !state.Exists()
	return nil
}
