package probe

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// cleaningTime is how long cleaning up may take, and go on after its
	// context has ended.
	cleaningTime = time.Minute
	// forgotten is the age from which on what a run left behind is nobody's:
	// the run was killed, or a request of its arrived late.
	forgotten = 24 * time.Hour
	// lateLooks is how often nothing must be found where an upload may have begun
	// of which nobody was told, and how often something may be found that is gone:
	// a second and more, for listings may lag behind.
	lateLooks = 8
	// poll is the time between two looks.
	poll = 200 * time.Millisecond
)

// cleanUp removes what this run made, versions and unfinished uploads included,
// and what others forgot. It returns the keys of what it could not remove, and the
// run's folder if it could not see what is in there.
func (s *store) cleanUp(ctx context.Context) []string {
	defer s.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaningTime)
	defer cancel()
	next := time.NewTicker(poll)
	defer next.Stop()
	// Until nothing is found: a request that was given up may arrive late, and a
	// listing may lag behind.
	looks := 1 // that find nothing
	if s.unheard {
		looks = lateLooks
	}
	gone := map[item]int{}
	for failures := 0; ; {
		left, found := s.sweep(ctx, gone)
		switch {
		case len(left) > 0:
			if failures++; failures == attempts {
				return left
			}
		case !found:
			if looks--; looks <= 0 && len(s.made) == 0 {
				return nil
			}
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			left = append(left, slices.Collect(maps.Keys(s.made))...)
			return unique(append(left, s.folder)) // nobody has seen that it is empty
		}
	}
}

func unique(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// began remembers an upload, or that one may begin yet.
func (s *store) began(id, key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.unheard = true
		return
	}
	s.uploads[id] = key
}

// item is an object or an unfinished upload.
type item struct {
	key string
	id  string // of the version, or of the upload
}

// sweep removes what it finds, and says whether it found anything. Gone counts how
// often each was removed, or not there any more; what is found in spite of that is
// left in the end.
func (s *store) sweep(ctx context.Context, gone map[item]int) (left []string, found bool) {
	remove := func(it item, remove func() answer) {
		found = true
		a := remove()
		if a.err == nil || a.absent() {
			gone[it]++
		}
		if a.err != nil && !a.absent() || gone[it] > lateLooks {
			left = append(left, it.key)
		}
	}
	uploads, seenUploads := s.unfinished(ctx)
	for it := range uploads {
		remove(it, func() answer { return s.abort(ctx, it.key, it.id) })
	}
	objects, seenObjects := s.listed(ctx)
	for it := range objects {
		remove(it, func() answer { return s.remove(ctx, it) })
	}
	if !seenUploads || !seenObjects {
		left = append(left, s.folder)
	}
	return unique(left), found
}

func (s *store) remove(ctx context.Context, it item) answer {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	err := s.core.RemoveObject(ctx, s.config.Bucket, it.key, minio.RemoveObjectOptions{VersionID: it.id})
	return s.unmakes(it.key, answered("", err))
}

// unfinished are uploads that are to be aborted. One whose reply was lost is only in
// the store's list, which not all have: then seen says that all are known.
func (s *store) unfinished(ctx context.Context) (found map[item]bool, seen bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found, seen = map[item]bool{}, true
	for u := range s.core.ListIncompleteUploads(ctx, s.config.Bucket, Prefix, true) {
		if u.Err != nil {
			seen = answered("", u.Err).never() && !s.unheard
		} else if s.mayRemove(u.Key, u.Initiated) {
			found[item{u.Key, u.UploadID}] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, key := range s.uploads {
		found[item{key, id}] = true
	}
	return found, seen
}

// listed are the objects that are to be removed, in every version that there
// is. Where versions, or anything, cannot be listed, it is what is known; seen says
// that it is all there is.
func (s *store) listed(ctx context.Context) (found map[item]bool, seen bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found = map[item]bool{}
	for _, opts := range []minio.ListObjectsOptions{
		{Prefix: Prefix, Recursive: true, WithVersions: true},
		{Prefix: Prefix, Recursive: true},
	} {
		failed := error(nil)
		for o := range s.core.Client.ListObjects(ctx, s.config.Bucket, opts) {
			if o.Err != nil {
				failed = o.Err
			} else if s.mayRemove(o.Key, o.LastModified) {
				found[item{o.Key, o.VersionID}] = true
			}
		}
		if failed == nil {
			return found, true
		}
		if !answered("", failed).never() {
			break // it may tell the next time
		}
		clear(found)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.made {
		found[item{key: key}] = true
	}
	return found, false
}

func (s *store) mayRemove(key string, made time.Time) bool {
	return strings.HasPrefix(key, s.folder) || !made.IsZero() && time.Since(made) > forgotten
}
