package check

import (
	"math"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// rivals are the reasons for a refusal that only somebody else's token gives.
// Where no other number had begun to claim, none of them may be heard (I3).
var rivals = []string{"stale", "duplicate", "foreign"}

// current finds refusals of the current holder: no claim of a higher number had
// begun when it was refused. One that was told that it has not claimed must not
// have been told before that it had.
func current(k *known) (found []Violation) {
	began := map[int64]int64{} // when the first claim of a number did
	for _, op := range k.Ops {
		if at, ok := began[op.Number]; op.Kind == history.Claim && (!ok || op.Began < at) {
			began[op.Number] = op.Began
		}
	}
	// higher returns when the first claim of a number above one began.
	higher := func(number int64) int64 {
		first := int64(math.MaxInt64)
		for n, at := range began {
			if n > number {
				first = min(first, at)
			}
		}
		return first
	}
	for _, op := range k.Ops {
		if !op.Over() || op.Outcome != guard.Refused {
			continue
		}
		mine := op.Reason == "unclaimed" && slices.ContainsFunc(k.Ops, func(c history.Op) bool {
			return claimed(c) && c.Holder == op.Holder && c.Ended < op.Began
		})
		if (mine || slices.Contains(rivals, op.Reason)) && higher(op.Number) > op.Ended {
			found = append(found, k.violated("I3", op, "nobody had begun to claim a higher number, and it was refused: %v, %s", op, op.Error))
		}
	}
	return found
}
