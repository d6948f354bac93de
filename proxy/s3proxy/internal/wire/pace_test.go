package wire

import (
	"testing"
	"time"
)

// Whoever sends a byte now and then comes to an end, and whoever is slow but
// keeps the pace does not.
func TestPace(t *testing.T) {
	t.Parallel()
	const limit = time.Minute
	for _, c := range []struct {
		bytes int           // in each second
		ends  time.Duration // 0: never
	}{{1, lag*limit + time.Second}, {leastRate / 2, 2*lag*limit + time.Second}, {leastRate, 0}, {1 << 20, 0}} {
		p := pace{limit: limit}
		var ended time.Duration
		for at := time.Duration(0); at < time.Hour && ended == 0; at += time.Second {
			if p.next() <= 0 {
				ended = at
			}
			p.bytes += int64(c.bytes)
			p.spent += time.Second
		}
		if (ended == 0) != (c.ends == 0) || ended > c.ends {
			t.Errorf("%d bytes in a second: ended after %v, want %v", c.bytes, ended, c.ends)
		}
		if next := p.next(); next > limit {
			t.Errorf("next: %v", next)
		}
	}
}
