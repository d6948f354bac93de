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
	// of which nobody was told: a second and more.
	lateLooks = 8
)

// cleanUp removes what this run made, versions and unfinished uploads included,
// and what others forgot. It returns the keys of what it could not remove.
func (s *store) cleanUp(ctx context.Context) []string {
	defer s.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaningTime)
	defer cancel()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	// Until nothing is found: a request that was given up may arrive late, and a
	// listing may lag behind.
	looks := 1 // that find nothing
	if s.unheard {
		looks = lateLooks
	}
	for failures := 0; ; {
		left, found := s.sweep(ctx)
		switch {
		case len(left) > 0:
			if failures++; failures == attempts {
				return left
			}
		case found:
			continue
		default:
			if looks--; looks <= 0 && len(s.made) == 0 {
				return nil
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			if len(left) == 0 {
				left = slices.Sorted(maps.Keys(s.made))
			}
			return left
		}
	}
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

// sweep removes what it finds, and says whether it found anything.
func (s *store) sweep(ctx context.Context) (left []string, found bool) {
	for key, id := range s.unfinished(ctx) {
		found = true
		if a := s.abort(ctx, key, id); a.err != nil && !a.absent() {
			left = append(left, key)
		}
	}
	for object := range s.listed(ctx) {
		found = true
		err := s.core.RemoveObject(ctx, s.config.Bucket, object.key, minio.RemoveObjectOptions{VersionID: object.version})
		if a := s.unmakes(object.key, answered("", err)); err != nil && !a.absent() {
			left = append(left, object.key)
		}
	}
	slices.Sort(left)
	return slices.Compact(left), found
}

// unfinished are uploads that are to be aborted, key and id of each.
func (s *store) unfinished(ctx context.Context) func(yield func(key, id string) bool) {
	s.mu.Lock()
	mine := maps.Clone(s.uploads)
	s.mu.Unlock()
	return func(yield func(key, id string) bool) {
		for id, key := range mine {
			if !yield(key, id) {
				return
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// One whose reply was lost is only in the list; not all stores have one.
		for u := range s.core.ListIncompleteUploads(ctx, s.config.Bucket, Prefix, true) {
			if u.Err == nil && mine[u.UploadID] == "" && s.mayRemove(u.Key, u.Initiated) && !yield(u.Key, u.UploadID) {
				return
			}
		}
	}
}

type version struct{ key, version string }

// listed are the objects that are to be removed, in every version that there
// is. Where versions, or anything, cannot be listed, it is what is known.
func (s *store) listed(ctx context.Context) map[version]bool {
	found := map[version]bool{}
	for _, opts := range []minio.ListObjectsOptions{
		{Prefix: Prefix, Recursive: true, WithVersions: true},
		{Prefix: Prefix, Recursive: true},
	} {
		clear(found)
		failed := false
		for o := range s.core.Client.ListObjects(ctx, s.config.Bucket, opts) {
			if o.Err != nil {
				failed = true
			} else if s.mayRemove(o.Key, o.LastModified) {
				found[version{o.Key, o.VersionID}] = true
			}
		}
		if !failed {
			return found
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.made {
		found[version{key: key}] = true
	}
	return found
}

func (s *store) mayRemove(key string, made time.Time) bool {
	return strings.HasPrefix(key, s.folder) || !made.IsZero() && time.Since(made) > forgotten
}
