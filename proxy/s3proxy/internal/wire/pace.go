package wire

import "time"

// leastRate is how many bytes of a body have to make it in a second, on the whole:
// who sends or takes one byte now and then makes progress, and would keep a
// connection, and one to the store, for ever.
const leastRate = 1 << 10

// lag is by how many times the limit a body may be behind that.
const lag = 10

// pace bounds the time that a body takes its client. It may make no progress for
// limit, and lag behind leastRate. What others take, the store above all, does not
// count.
type pace struct {
	limit time.Duration
	bytes int64
	spent time.Duration
}

// next is how long the next piece may take.
func (p *pace) next() time.Duration {
	earned := time.Duration(float64(p.bytes) / leastRate * float64(time.Second))
	return max(min(p.limit, lag*p.limit+earned-p.spent), 0)
}

func (p *pace) took(n int, since time.Time) {
	p.bytes += int64(n)
	p.spent += time.Since(since)
}
