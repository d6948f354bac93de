package probe

import (
	"context"
	"fmt"
	"sync"

	"github.com/minio/minio-go/v7"
)

// etagsOf are the checks of what conditions name: ETags.
func etagsOf(s *store, writers ...writer) []check {
	var all []check
	for _, w := range writers {
		all = append(all, check{
			Row{Name: w.operation + "/etag", Operation: w.operation, Asked: "its ETag is that of GET and HEAD, and overwrites", Framed: true},
			func(ctx context.Context) (Result, string) { return s.etagAgrees(ctx, w) },
		})
	}
	return append(all, check{
		Row{Name: "etag/distinct", Operation: "PutObject, CompleteMultipartUpload", Asked: "other bytes of the same length have another ETag", Framed: true},
		func(ctx context.Context) (Result, string) { return s.etagsDiffer(ctx, writers, fill) },
	}, check{
		Row{Name: "etag/unique", Operation: "PutObject", Asked: "the same bytes, written again, have another ETag"},
		func(ctx context.Context) (Result, string) {
			content := fill()
			return s.etagsDiffer(ctx, writers[:1], func() string { return content })
		},
	})
}

func (s *store) etagAgrees(ctx context.Context, w writer) (Result, string) {
	key := s.fresh()
	made := w.write(ctx, key, fill(), condition{})
	if made.err != nil {
		return Unknown, "make an object: " + made.String()
	}
	_, got, read := s.read(ctx, key)
	head := s.head(ctx, key)
	if read.err != nil || head.err != nil {
		return Unknown, fmt.Sprintf("GET: %v; HEAD: %v", read, head)
	}
	if made.etag == "" || made.etag != got || made.etag != head.etag {
		return Violated, fmt.Sprintf("%s answers %q, GET %q, HEAD %q", w.operation, made.etag, got, head.etag)
	}
	if a := s.put(ctx, key, fill(), condition{match: made.etag}); a.err != nil {
		result, said := s.denied(a)
		return result, "overwrite by it: " + said
	}
	return Honoured, "they agree"
}

// several is how many writes are looked at where one could be chance.
const several = 8

// etagsDiffer writes to one key over and over, by each writer in turn.
func (s *store) etagsDiffer(ctx context.Context, writers []writer, content func() string) (Result, string) {
	key := s.fresh()
	seen := map[string]bool{}
	for i := range several {
		a := writers[i%len(writers)].write(ctx, key, content(), condition{})
		if a.err != nil {
			return Unknown, "write: " + a.String()
		}
		seen[a.etag] = true
	}
	said := fmt.Sprintf("%d ETags for %d writes", len(seen), several)
	if len(seen) < several {
		return Violated, said
	}
	return Honoured, said
}

// readsOf are the checks that reads see the last write.
func readsOf(s *store, put writer) []check {
	return []check{{
		Row{Name: "read/after-write", Operation: "GetObject, HeadObject", Asked: "GET, GET of a range and HEAD see the last write", Framed: true},
		s.readAfterWrite,
	}, {
		Row{Name: "read/after-create", Operation: "GetObject, HeadObject", Asked: "a key that was asked for in vain is seen when it is there", Framed: true},
		func(ctx context.Context) (Result, string) {
			key := s.fresh()
			if _, _, a := s.read(ctx, key); !a.absent() {
				return Unknown, "GET before: " + a.String()
			}
			return s.seen(ctx, key, condition{absent: true})
		},
	}, {
		Row{Name: "GetObject/if-match", Operation: "GetObject", Asked: "If-Match of the ETag before is refused"},
		func(ctx context.Context) (Result, string) {
			key := s.fresh()
			before, now := s.put(ctx, key, fill(), condition{}), s.put(ctx, key, fill(), condition{})
			if before.err != nil || now.err != nil {
				return Unknown, fmt.Sprintf("make an object: %v, %v", before, now)
			}
			var opts minio.GetObjectOptions
			if err := opts.SetMatchETag(before.etag); err != nil {
				return Unknown, err.Error()
			}
			_, _, a := s.read(ctx, key, opts)
			switch {
			case a.err == nil:
				return Violated, "ignored"
			case a.refused():
				return Honoured, a.String()
			default:
				return s.denied(a)
			}
		},
	}, {
		Row{Name: "list/after-write", Operation: "ListObjectsV2", Asked: "a listing sees the last write and its ETag"},
		func(ctx context.Context) (Result, string) { return s.listAfterWrite(ctx, put) },
	}}
}

func (s *store) readAfterWrite(ctx context.Context) (Result, string) {
	key := s.fresh()
	made := s.put(ctx, key, fill(), condition{absent: true})
	if made.err != nil {
		return Unknown, "make an object: " + made.String()
	}
	for range several {
		if result, said := s.seen(ctx, key, condition{}); result != Honoured {
			return result, said
		}
	}
	return Honoured, fmt.Sprintf("seen at once, %d times", several)
}

// seen writes, and reads at once in every way, on connections of their own.
func (s *store) seen(ctx context.Context, key string, c condition) (Result, string) {
	content := fill()
	made := s.put(ctx, key, content, c)
	if made.err != nil {
		return Unknown, "write: " + made.String()
	}
	var all sync.WaitGroup
	var results [3]Result
	var said [3]string
	see := func(i int, what string, read func() (bool, answer)) {
		all.Go(func() {
			same, a := read()
			switch {
			case a.err == nil && same && a.etag == made.etag:
				results[i], said[i] = Honoured, what+" sees it"
			case a.err == nil, a.absent():
				results[i], said[i] = Violated, what+" does not see it"
			default:
				results[i], said[i] = Unknown, what+": "+a.String()
			}
		})
	}
	see(0, "GET", func() (bool, answer) {
		got, _, a := s.read(ctx, key)
		return got == content, a
	})
	see(1, "HEAD", func() (bool, answer) { return true, s.head(ctx, key) })
	see(2, "GET of a range", func() (bool, answer) {
		var opts minio.GetObjectOptions
		if err := opts.SetRange(0, int64(len(content)-1)); err != nil {
			return false, answered("", err)
		}
		got, _, a := s.read(ctx, key, opts)
		return got == content, a
	})
	all.Wait()
	for _, want := range []Result{Violated, Unknown, Honoured} {
		for i, result := range results {
			if result == want {
				return result, said[i]
			}
		}
	}
	return Unknown, ""
}

func (s *store) listAfterWrite(ctx context.Context, put writer) (Result, string) {
	key := s.fresh()
	first := put.write(ctx, key, fill(), condition{})
	now := put.write(ctx, key, fill(), condition{})
	if first.err != nil || now.err != nil {
		return Unknown, fmt.Sprintf("make an object: %v, %v", first, now)
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	listed := 0
	for o := range s.core.Client.ListObjects(ctx, s.config.Bucket, minio.ListObjectsOptions{Prefix: key}) {
		listed++
		if o.Err != nil {
			return Unknown, answered("", o.Err).String()
		}
		if etag := answered(o.ETag, nil).etag; etag != now.etag {
			return Violated, fmt.Sprintf("lists the ETag %q, PutObject answered %q", etag, now.etag)
		}
	}
	if listed != 1 {
		return Violated, fmt.Sprintf("lists %d objects", listed)
	}
	return Honoured, "seen at once"
}
