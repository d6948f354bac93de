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
				err = s.lookAt(ctx, g, page)
			}
			if err == nil {
				err = s.hideEmpty(ctx, page)
			}
			if err != nil {
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
	info.ETag = strings.Trim(info.ETag, `"`)
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

// maxHidden bounds how many keys under a common prefix are looked at.
const maxHidden = 1000

// hideEmpty hides common prefixes that have nothing but tombstones under them.
func (s *Store) hideEmpty(ctx context.Context, page []entry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.config.Parallel, 1))
	for i := range page {
		if e := &page[i]; e.isPrefix() && !e.hidden && !s.allUnfenced(e.Key) {
			group.Go(func() (err error) {
				e.hidden, err = s.isEmpty(ctx, e.Key)
				return err
			})
		}
	}
	return group.Wait()
}

// allUnfenced reports whether no key under prefix is bound to a resource.
func (s *Store) allUnfenced(prefix string) bool {
	return s.unfenced(prefix) && !slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(p, prefix) })
}

// isEmpty reports whether nothing but tombstones is under prefix. The first few
// keys tell as a rule.
func (s *Store) isEmpty(ctx context.Context, prefix string) (bool, error) {
	after := ""
	for _, limit := range []int{10, maxHidden - 10} {
		seen := 0
		for info := range s.core.ListObjectsIter(ctx, s.config.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, StartAfter: after, MaxKeys: limit}) {
			if info.Err != nil {
				return false, info.Err
			}
			if e := s.judge(info); !e.hidden {
				return false, nil
			}
			after = info.Key
			if seen++; seen == limit {
				break
			}
		}
		if seen < limit {
			return true, ctx.Err()
		}
	}
	return false, nil
}

// lookAt looks at the first bytes of the objects whose size does not tell what
// they are, several at once.
func (s *Store) lookAt(ctx context.Context, g layout.Grant, page []entry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.config.Parallel, 1))
	for i := range page {
		e := &page[i]
		if layout.Reserved(e.Key) || e.isPrefix() || e.unfenced {
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
	state, seen := s.known.State(e.Key)
	if seen && state.ETag == e.ETag {
		e.Size = e.size
		frame.Hide(&e.ObjectInfo, state, e.size)
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
