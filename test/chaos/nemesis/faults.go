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
	return Fault{Name: name, Target: target, Weight: weight, Longest: longest, Begin: func(tb testing.TB, _ *rand.Rand) (func(), bool) {
		tb.Helper()
		begin(tb)
		return func() { end(tb) }, true
	}}
}

// OfMembers are the faults of servers that are one to their clients, one of them
// at a time.
func OfMembers(name string, all []Server, weight int, longest time.Duration) []Fault {
	return ofOne(name, name+" member", weight, 0, longest, func(_ testing.TB, dice *rand.Rand) Server { return all[dice.IntN(len(all))] })
}

// OfLeader are the faults of the one that leads them: it is stopped for long enough
// that another one is elected, or killed. Nothing happens if there is none.
func OfLeader(name string, weight int, election time.Duration, leader func(tb testing.TB) Server) []Fault {
	return ofOne(name, name+" leader", weight, election, 2*election, func(tb testing.TB, _ *rand.Rand) Server { tb.Helper(); return leader(tb) })
}

func ofOne(target, name string, weight int, shortest, longest time.Duration, pick func(testing.TB, *rand.Rand) Server) []Fault {
	one := func(what string, shortest, longest time.Duration, begin, end func(Server, testing.TB)) Fault {
		return Fault{Name: name + what, Target: target, Weight: weight, Shortest: shortest, Longest: longest, Begin: func(tb testing.TB, dice *rand.Rand) (func(), bool) {
			tb.Helper()
			s := pick(tb, dice)
			if s == nil {
				return nil, false
			}
			begin(s, tb)
			return func() { end(s, tb) }, true
		}}
	}
	return []Fault{
		one(" stopped", shortest, longest, Server.Freeze, Server.Thaw),
		one(" killed", 0, 2*Moment, Server.Kill, Server.Restart),
	}
}

// DiskFull leaves a server a few kilobytes of room, and then as much as before.
func DiskFull(name string, server interface {
	Fill(tb testing.TB, leave int64)
	Free(tb testing.TB)
}, weight int,
) Fault {
	return Fault{Name: name + " disk full", Target: name, Weight: weight, Longest: 2 * Moment, Begin: func(tb testing.TB, dice *rand.Rand) (func(), bool) {
		tb.Helper()
		server.Fill(tb, dice.Int64N(256<<10))
		return func() { server.Free(tb) }, true
	}}
}

// OfLink are the faults of a link. Its name is that of its ends.
func OfLink(name string, l *testenv.Link, weight int) []Fault {
	do := func(what string, weight int, longest time.Duration, begin func(dice *rand.Rand), end func()) Fault {
		return Fault{Name: name + " " + what, Target: "link " + name, Weight: weight, Longest: longest, Begin: func(_ testing.TB, dice *rand.Rand) (func(), bool) {
			begin(dice)
			return end, true
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

// Promoted kills the primary of a pair and has its replica promoted in its place.
// It lasts as long as it takes until both are there again.
func Promoted(name, target string, weight int, promote func(tb testing.TB) (promoted bool), rejoin func(tb testing.TB)) Fault {
	return Fault{Name: name, Target: target, Weight: weight, Longest: Moment, Begin: func(tb testing.TB, _ *rand.Rand) (func(), bool) {
		tb.Helper()
		if !promote(tb) {
			return nil, false
		}
		return func() { rejoin(tb) }, true
	}}
}
