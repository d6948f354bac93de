package migrations_test

import (
	"testing"
	"time"
)

// A bug that was here: an old holder that began after the claim blocked the new
// one with a row lock for as long as it idled; to claim again with evict did not
// help (I4).
func TestLateStarterIsEvicted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for name, late := range holding {
			if name != "not checked yet" && name != "not checked yet, by Bind" {
				continue // a check refuses it
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := d.cast(t)
				tk := claim(t, s.next, s.r.writer(34))
				current := s.app(t)
				exec(t, current, "begin")
				exec(t, current, presence, tk.seq, tk.epoch)
				exec(t, current, fastCheck, tk.seq, tk.epoch, s.r.writer(34))
				late(t, s)
				claim(t, s.next, s.r.writer(34))
				exec(t, s.old, "select 1") // without evict
				exec(t, s.next, "select fence.claim($1, $2, true)", s.r.writer(34), 100*time.Millisecond)
				d.gone(t, s.old)
				exec(t, s.next, "update "+s.table+" set n = 34")
				exec(t, current, "commit")
			})
		}
	})
}
