package check

import (
	"cmp"
	"math"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// stale finds writes under a number lower than one to which the register was
// closed by then (I1). It has three kinds of evidence: the order of the writes
// in the register itself, what a new holder has read, and the clock.
func stale(k *known) []Violation {
	found := slices.Concat(outOfOrder(k), behindTheClock(k))
	if k.From == Claimed {
		found = append(found, behindARead(k)...)
	}
	return found
}

// outOfOrder: a lower number stands behind a higher one.
func outOfOrder(k *known) (found []Violation) {
	var top history.Entry
	for _, e := range k.Applied {
		if e.Number < top.Number {
			found = append(found, k.violatedBy("I1", e, "version %d is of number %d, version %d before it of %d: %v", e.Version, e.Number, top.Version, top.Number, k.writes[e.ID]))
			continue
		}
		top = e
	}
	return found
}

// behindARead: a holder has read the register after its claim had returned, and
// a write under a lower number came after what it has read.
func behindARead(k *known) (found []Violation) {
	returned := map[string]int64{} // when the claim of a holder had
	for _, op := range k.Ops {
		if at, ok := returned[op.Holder]; claimed(op) && (!ok || op.Ended < at) {
			returned[op.Holder] = op.Ended
		}
	}
	first := map[int64]history.Op{} // by number, the read of the lowest version
	for _, op := range k.Ops {
		at, ok := returned[op.Holder]
		if !ok || !op.Is(history.Read, guard.Applied) || op.Began < at {
			continue
		}
		if known, ok := first[op.Number]; !ok || op.Seen.Version < known.Seen.Version {
			first[op.Number] = op
		}
	}
	reads := make([]history.Op, 0, len(first))
	for _, op := range first {
		reads = append(reads, op)
	}
	slices.SortFunc(reads, func(a, b history.Op) int { return cmp.Compare(a.Seen.Version, b.Seen.Version) })
	var floor history.Op // the highest number that had read what came before
	for _, e := range k.Applied {
		for len(reads) > 0 && reads[0].Seen.Version < e.Version {
			if reads[0].Number > floor.Number {
				floor = reads[0]
			}
			reads = reads[1:]
		}
		if e.Number < floor.Number {
			found = append(found, k.violatedBy("I1", e, "version %d under number %d came after %v: %v", e.Version, e.Number, floor, k.writes[e.ID]))
		}
	}
	return found
}

// behindTheClock: a write had not even begun when the register was closed to it.
func behindTheClock(k *known) (found []Violation) {
	closing := slices.DeleteFunc(slices.Clone(k.Ops), func(op history.Op) bool {
		if k.From == Claimed {
			return !claimed(op)
		}
		return !op.Is(history.Write, guard.Applied)
	})
	slices.SortFunc(closing, func(a, b history.Op) int { return cmp.Compare(a.Ended, b.Ended) })
	ops := slices.Clone(k.Ops)
	history.InOrder(ops)
	floor := history.Op{Number: math.MinInt64}
	for _, op := range ops {
		for len(closing) > 0 && closing[0].Ended < op.Began {
			if closing[0].Number > floor.Number {
				floor = closing[0]
			}
			closing = closing[1:]
		}
		if op.Kind == history.Write && op.Number < floor.Number && k.applied(op) {
			found = append(found, k.violated("I1", op, "%v was applied, and began after %v", op, floor))
		}
	}
	return found
}
