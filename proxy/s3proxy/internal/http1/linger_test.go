package http1

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What is read away so that another request can follow has its time in all, too, however
// steadily it comes. The clock is the test's own, so that it is exact.
func TestSkipHasALimit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		every time.Duration // comes a piece
		whole bool          // in time
	}{
		"in time":  {lingerTime / 4, true},
		"too slow": {lingerTime / 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				theirs, ours := net.Pipe()
				c := newConn(t.Context(), New(patient(nil)), ours)
				defer c.cancel()
				c.left = -1 // it is a body that is read
				var sending sync.WaitGroup
				sending.Go(func() {
					defer theirs.Close()
					for sent := 0; sent < maxSkip; sent += readSize {
						<-time.After(row.every)
						if _, err := theirs.Write(make([]byte, readSize)); err != nil {
							return
						}
					}
				})
				begun := time.Now()
				whole := c.skip(&body{src: c.r, size: maxSkip, left: maxSkip})
				took := time.Since(begun)
				c.Close()
				sending.Wait()
				if whole != row.whole || took > lingerLimit || !whole && took < lingerLimit-lingerTime {
					t.Errorf("came to its end: %v, after %v", whole, took)
				}
			})
		})
	}
}
