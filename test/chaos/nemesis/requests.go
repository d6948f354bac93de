package nemesis

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// OfRequests are the faults of single requests that write an object to S3, at once
// or as the end of an upload in parts: one arrives when its client has long given
// up, is answered and nobody hears it, or is cut off in the middle of its body.
func OfRequests(name string, l *testenv.S3Link, weight int) []Fault {
	return slices.Concat(
		ofRequests(name, "", l, s3link.Op(s3link.PutObject), weight),
		ofRequests(name, " (Complete)", l, s3link.Op(s3link.CompleteMultipartUpload), weight),
	)
}

func ofRequests(name, kind string, l *testenv.S3Link, these func(s3link.Request) bool, weight int) []Fault {
	fault := func(what string, longest time.Duration, begin func(dice *rand.Rand) (end func())) Fault {
		full := name + " " + what + kind
		return Fault{Name: full, Target: full, Weight: weight, Longest: longest, Begin: func(_ testing.TB, dice *rand.Rand) (func(), bool) {
			return begin(dice), true
		}}
	}
	once := func(what string, do func(n int)) Fault {
		return fault(what, 0, func(dice *rand.Rand) func() {
			do(1 + dice.IntN(3))
			return nil
		})
	}
	return []Fault{
		once("answer lost", func(n int) { l.DropReply(these, n) }),
		once("body cut", func(n int) { l.CutBody(these, n, int64(10*n)) }),
		once("answered 503", func(n int) { l.SpoilReply(these, n, 503, "SlowDown") }),
		fault("request late", 5*Moment, func(dice *rand.Rand) func() {
			return hold(l.Hold(these, 1), time.Duration(dice.Int64N(int64(Moment/2))))
		}),
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
