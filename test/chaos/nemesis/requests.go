package nemesis

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// OfRequests are the faults of single requests that write an object to S3: one
// arrives when its client has long given up, is answered and nobody hears it, or is
// cut off in the middle of its body.
func OfRequests(name string, l *testenv.S3Link, weight int) []Fault {
	puts := s3link.Op(s3link.PutObject)
	once := func(what string, do func(n int)) Fault {
		return Fault{Name: name + " " + what, Target: name + " " + what, Weight: weight, Begin: func(_ testing.TB, dice *rand.Rand) (func(), bool) {
			do(1 + dice.IntN(3))
			return nil, true
		}}
	}
	return []Fault{
		once("answer lost", func(n int) { l.DropReply(puts, n) }),
		once("body cut", func(n int) { l.CutBody(puts, n, int64(10*n)) }),
		once("answered 503", func(n int) { l.SpoilReply(puts, n, 503, "SlowDown") }),
		{
			Name: name + " request late", Target: name + " request late", Weight: weight, Longest: 5 * Moment,
			Begin: func(_ testing.TB, dice *rand.Rand) (func(), bool) {
				return hold(l.Hold(puts, 1), time.Duration(dice.Int64N(int64(Moment/2)))), true
			},
		},
	}
}

// hold lets the client of a request that is held see its connection break after a
// while. What it returns delivers the request all the same.
func hold(held *s3link.Held, patience time.Duration) (deliver func()) {
	limit, cancel := context.WithTimeout(context.Background(), time.Minute)
	abandoned := make(chan struct{})
	go func() {
		defer close(abandoned)
		select {
		case <-held.Taken():
			nap(limit, patience)
			held.Abandon()
		case <-limit.Done(): // nobody writes
		}
	}()
	return func() {
		within, stop := context.WithTimeout(limit, 2*Moment)
		_, _, _ = held.Deliver(within) // whatever comes of it: the registers tell
		stop()
		cancel()
		<-abandoned
	}
}
