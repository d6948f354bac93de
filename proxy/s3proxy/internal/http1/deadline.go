package http1

import (
	"sync/atomic"
	"time"
)

// deadline is that of one direction of a connection. It is moved on when it comes near,
// and not for each of many short operations.
type deadline struct {
	set func(time.Time) error
	at  atomic.Int64 // nanoseconds since began; 0: none
}

var began = time.Now() //nolint:gochecknoglobals // the clock does not go back from there

// within gives what follows between 3/4 of limit and limit.
func (d *deadline) within(limit time.Duration) { d.by(limit, limit/4) }

// by gives what follows limit, or up to slack less.
func (d *deadline) by(limit, slack time.Duration) {
	now := time.Now()
	if left := time.Duration(d.at.Load()) - now.Sub(began); left < limit-slack || left > limit {
		d.at.Store(int64(now.Sub(began) + limit))
		_ = d.set(now.Add(limit))
	}
}

// past ends what is under way, and all that follows.
func (d *deadline) past() {
	d.at.Store(0)
	_ = d.set(time.Unix(1, 0))
}
