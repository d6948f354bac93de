package s3store

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/frame"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/listing"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
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
// behind its objects, as in minio-go. Tombstones are left out, and so are common
// prefixes that have nothing but tombstones under them, as far as ListPage looks. An error
// that comes with a key is about that object alone, one without ends the list.
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
			if err := s.lookAt(ctx, g, page); err != nil {
				yield(minio.ObjectInfo{}, s.done(ctx, "list", o.Prefix, err))
				return
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
	// unfenced: none of the store's business.
	unfenced bool
	err      error
}

func (e *entry) isPrefix() bool { return listing.IsPrefix(&e.ObjectInfo) }

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
			if page = append(page, s.judge(info)); len(page) == pageSize {
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

// judge judges an entry by its name and its size.
func (s *Store) judge(info minio.ObjectInfo) entry {
	e := entry{ObjectInfo: info, size: info.Size}
	switch {
	case layout.Reserved(info.Key):
		e.hidden = true
	case e.isPrefix():
	case s.unfenced(info.Key):
		e.unfenced = true
	case info.ETag == "":
		e.err = request.ErrNoETag
	case info.Size == layout.TombstoneSize:
		e.hidden = true
	case info.Size < layout.HeaderSize:
		e.err = layout.ErrBare
	default:
		frame.Hide(&e.ObjectInfo, layout.State{Header: layout.Header{Kind: layout.Live}}, info.Size)
	}
	return e
}

// unfenced reports whether a key is none of the store's business.
func (s *Store) unfenced(key string) bool {
	if !s.config.OnlyPrefixes {
		return false
	}
	_, bound := s.ResourceOf(key)
	return !bound
}

// allUnfenced reports whether no key under prefix is the store's business.
func (s *Store) allUnfenced(prefix string) bool {
	return s.unfenced(prefix) && !layout.HasReserved(prefix) && !slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(p, prefix) })
}

// lookAt looks at what a listing does not tell, several entries at once: whether
// anything but tombstones is under a common prefix, and with Config.Legacy what
// the first bytes of an object are.
func (s *Store) lookAt(ctx context.Context, g layout.Grant, page []entry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.config.Parallel, 1))
	for i := range page {
		e := &page[i]
		switch {
		case layout.Reserved(e.Key), e.unfenced:
		case e.isPrefix():
			if !s.allUnfenced(e.Key) {
				group.Go(func() (err error) {
					e.hidden, err = s.isEmpty(ctx, g, e.Key)
					return err
				})
			}
		case !s.config.Legacy:
		case errors.Is(e.err, layout.ErrBare): // it is too small to be anything else
			e.err = nil
		case e.err == nil:
			group.Go(func() error { return s.lookAtOne(ctx, g, e) })
		}
	}
	return group.Wait()
}

// isEmpty reports whether nothing but tombstones is under prefix. The first few
// keys tell as a rule.
func (s *Store) isEmpty(ctx context.Context, g layout.Grant, prefix string) (bool, error) {
	q := listing.Query{Prefix: prefix}
	for _, q.Max = range []int{10, listing.Most} {
		infos, last, err := s.list.Page(ctx, q)
		if err != nil {
			return false, err
		}
		entries, err := s.shown(ctx, g, infos)
		if err != nil || len(entries) > 0 || last {
			return len(entries) == 0, err
		}
		q.After = layout.BehindReserved(infos[len(infos)-1].Key)
	}
	return false, nil
}

func (s *Store) lookAtOne(ctx context.Context, g layout.Grant, e *entry) error {
	state, seen := s.known.State(e.Key)
	if seen && state.ETag == e.ETag {
		e.Size = e.size
		frame.Hide(&e.ObjectInfo, state, e.size)
	} else {
		var info minio.ObjectInfo
		var err error
		if state, info, err = s.glance(ctx, g, e.Key); guard.OutcomeOf(err) == guard.Refused { // it is damaged
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
