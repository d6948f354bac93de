package gateway

import (
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
)

// Two Completes of one key reach the store at the same moment, through two proxies:
// of the same upload or of two, under one token. Both are carried out, one after the
// other, and both clients are told so.
func TestCompletesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxies := []place{s.proxy(t), s.proxy(t)}
	for _, same := range []bool{true, false, true, false, true, false} {
		ids, lists, values := make([]string, 2), make([][]minio.CompletePart, 2), []string{"one", "other"}
		for i, p := range proxies {
			ids[i] = create(t, p, "k", number(1))
			lists[i] = []minio.CompletePart{upload(t, p, "k", ids[i], 1, values[i], number(1))}
		}
		if same {
			ids[1], lists[1], values[1] = ids[0], lists[0], values[0]
		}
		var group sync.WaitGroup
		for i, p := range proxies {
			group.Go(func() {
				if _, err := complete(t, p, "k", ids[i], lists[i], number(1)); err != nil {
					t.Errorf("the same upload: %v: %v", same, err)
				}
			})
		}
		group.Wait()
		got, err := read(t.Context(), proxies[0].client(t, number(1)), s.bucket, "k")
		if err != nil || got != values[0] && got != values[1] {
			t.Errorf("k holds %q, %v", got, err)
		}
	}
}
