package s3store

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// An ETag with nothing between its quotes, or with what means any without them, is a
// condition that is false, not none: nothing is overwritten, deleted or read by it.
func TestEmptyETag(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *testenv.S3Server) {
		e := newEnv(t, server, Config{})
		mustPut(t, e.store, writer(33), "k", "kept")
		for _, etag := range []string{`""`, `"`, `"*"`} {
			_, err := e.store.Put(t.Context(), writer(33), "k", strings.NewReader("lost"), 4, PutOptions{IfMatch: etag})
			expect(t, "put", err, ErrPrecondition, guard.NotApplied)
			expect(t, "delete", e.store.Delete(t.Context(), writer(33), "k", DeleteOptions{IfMatch: etag}), ErrPrecondition, guard.NotApplied)
			_, err = e.store.Copy(t.Context(), writer(33), CopyDest{Key: "copy"}, CopySource{Key: "k", IfMatch: etag})
			expect(t, "copy", err, ErrPrecondition, guard.NotApplied)
			for _, offset := range []int64{0, 1} {
				_, err = read(t.Context(), e.store, writer(33), "k", GetOptions{IfMatch: etag, Offset: offset})
				expect(t, "get", err, ErrPrecondition, guard.OutcomeOf(err))
			}
			_, err = e.store.Stat(t.Context(), writer(33), "k", GetOptions{IfMatch: etag})
			expect(t, "stat", err, ErrPrecondition, guard.OutcomeOf(err))
		}
		expectValue(t, e.store, writer(33), "k", "kept")
	})
}
