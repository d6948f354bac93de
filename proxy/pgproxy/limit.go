package pgproxy

import "sync/atomic"

// limit counts what may be only so often at a time.
type limit struct{ taken atomic.Int64 }

// take counts one more, unless there are most already; 0 is no limit.
func (l *limit) take(most int) bool {
	if n := l.taken.Add(1); most > 0 && n > int64(most) {
		l.taken.Add(-1)
		return false
	}
	return true
}

func (l *limit) give() { l.taken.Add(-1) }

// mostOpening bounds the clients in the handshake, most of which may not mean to
// get any further, by what MaxConnections says; above it there must be room for
// cancel requests and for those that are told that there are too many.
func mostOpening(maxConnections int) int {
	if maxConnections == 0 {
		return 0
	}
	return 2*maxConnections + 64
}
