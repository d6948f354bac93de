package s3store

import (
	"context"
	"iter"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// DeleteOptions are the options of one delete.
type DeleteOptions struct {
	// IfMatch deletes only the object with this ETag, "*" if there is one; else
	// ErrPrecondition.
	IfMatch string
}

// Delete deletes an object under token, as Put would overwrite it. What stays
// is a tombstone of 60 bytes, which reads and listings do not show: a key that
// was once used is never absent again, or a late write of an older holder could
// create it. For the same reason a key that has no object gets one too. It is
// at most two requests, and no error if there is no object.
func (s *Store) Delete(ctx context.Context, token guard.Token, key string, o DeleteOptions) error {
	return s.done(ctx, "delete", key, s.remove(ctx, token, key, o))
}

func (s *Store) remove(ctx context.Context, token guard.Token, key string, o DeleteOptions) error {
	g, err := s.writer(ctx, token, key)
	if err != nil {
		return notApplied(err)
	}
	w := &write{
		store: s, grant: g, key: key,
		wish:  layout.Wish{Delete: true, IfMatch: unquoted(o.IfMatch), Legacy: s.config.Legacy},
		cargo: &single{store: s, key: key, payload: payload.Empty(), opts: minio.PutObjectOptions{}},
	}
	_, err = w.run(ctx)
	return err
}

// DeleteMany deletes keys, Config.Parallel at once, and yields each with its
// error as it is done, in no order. S3's own DeleteObjects cannot be fenced on
// every store, so each key is a request of its own. If ctx ends, what is under
// way is still yielded, and last the error of ctx without a key: the keys that
// were not yielded were not touched. To break off the loop leaves them
// undeleted, or unknown.
func (s *Store) DeleteMany(ctx context.Context, token guard.Token, keys iter.Seq[string]) iter.Seq2[string, error] {
	type result struct {
		key string
		err error
	}
	return func(yield func(string, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		broken := make(chan struct{}) // off by the caller
		todo, results := make(chan string), make(chan result)
		var workers, feeder sync.WaitGroup
		for range max(s.config.Parallel, 1) {
			workers.Go(func() {
				for key := range todo {
					err := s.Delete(ctx, token, key, DeleteOptions{})
					select {
					case results <- result{key, err}:
					case <-broken:
					}
				}
			})
		}
		var left error // why keys were left out
		feeder.Go(func() {
			defer close(results)
			defer workers.Wait()
			defer close(todo)
			for key := range keys {
				select {
				case todo <- key:
				case <-ctx.Done():
					left = notApplied(ctx.Err())
					return
				}
			}
		})
		defer feeder.Wait()
		defer cancel()
		defer close(broken)
		for r := range results {
			if !yield(r.key, r.err) {
				return
			}
		}
		if left != nil {
			yield("", s.done(ctx, "delete", "", left))
		}
	}
}
