package nemesis

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Moment is how long most faults last at most: longer than any request takes, and
// shorter than a lease.
const Moment = 600 * time.Millisecond

// Server is what servers of testenv can do.
type Server interface {
	Freeze(tb testing.TB)
	Thaw(tb testing.TB)
	Kill(tb testing.TB)
	// Restart starts it again after Kill.
	Restart(tb testing.TB)
}

// OfServer are the faults of a server: it is stopped for up to longest, or
// killed and started again.
func OfServer(name string, s Server, weight int, longest time.Duration) []Fault {
	return []Fault{
		Stopped(name, weight, longest, s.Freeze, s.Thaw),
		Killed(name, max(1, weight/2), Moment, s.Kill, s.Restart),
	}
}

// Stopped is a SIGSTOP, and a SIGCONT after a while.
func Stopped(name string, weight int, longest time.Duration, freeze, thaw func(testing.TB)) Fault {
	return lasting(name+" stopped", name, weight, longest, freeze, thaw)
}

// Killed is a kill -9, and a new start after a while.
func Killed(name string, weight int, longest time.Duration, kill, restart func(testing.TB)) Fault {
	return lasting(name+" killed", name, weight, longest, kill, restart)
}

func lasting(name, target string, weight int, longest time.Duration, begin, end func(testing.TB)) Fault {
	return Fault{Name: name, Target: target, Weight: weight, Longest: longest, Begin: func(tb testing.TB, _ *rand.Rand) func() {
		begin(tb)
		return func() { end(tb) }
	}}
}

// OfLink are the faults of a link. Its name is that of its ends.
func OfLink(name string, l *testenv.Link, weight int) []Fault {
	do := func(what string, weight int, longest time.Duration, begin func(dice *rand.Rand), end func()) Fault {
		return Fault{Name: name + " " + what, Target: "link " + name, Weight: weight, Longest: longest, Begin: func(_ testing.TB, dice *rand.Rand) func() {
			begin(dice)
			return end
		}}
	}
	return []Fault{
		do("cut", 2*weight, 0, func(*rand.Rand) { l.Cut() }, nil),
		do("frozen", weight, 2*Moment, func(*rand.Rand) { l.Freeze() }, l.Thaw),
		do("torn", weight, 0, func(dice *rand.Rand) { l.Tear(1 + dice.IntN(20)) }, nil),
		do("slow", weight, Moment, func(dice *rand.Rand) { l.Delay(time.Duration(dice.Int64N(int64(30 * time.Millisecond)))) }, func() { l.Delay(0) }),
		do("reply lost", 2*weight, 0, func(dice *rand.Rand) { l.DropReply(1 + dice.IntN(10)) }, nil),
		do("refuses", weight, Moment/2, func(*rand.Rand) { l.Refuse(true) }, func() { l.Refuse(false) }),
	}
}
