package check

import (
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// overwritten finds writes that another number's came between: between what
// their writer had read and themselves. If that was an older holder's, the newer
// one has overwritten it with a perfectly current token (I9); if it was a newer
// one's, a stale write has overwritten that (I1). Of one's own nothing is said.
func overwritten(k *known) (found []Violation) {
	for i, e := range k.Applied {
		read, known := k.place[e.Prev]
		switch {
		case e.Prev != "":
		case i > 0 && k.removed(k.Applied[i-1].ID): // there was nothing to overwrite
			continue
		default:
			read, known = -1, true
		}
		if !known {
			found = append(found, k.violatedBy("I9", e, "version %d is based on %s, which is not there", e.Version, e.Prev))
			continue
		}
		for j := read + 1; j < i; j++ {
			if between := k.Applied[j]; between.Number != e.Number {
				found = append(found, k.between(between, e))
			}
		}
	}
	return append(found, forked(k)...)
}

// forked finds acknowledged writes of which the register shows no trace, since
// another number's stands at their version.
func forked(k *known) (found []Violation) {
	at := map[int64]history.Entry{}
	for _, e := range k.Applied {
		at[e.Version] = e
	}
	for _, op := range k.Ops {
		e, ok := at[op.Seen.Version+1]
		if ok && op.Is(history.Write, guard.Applied) && !k.applied(op) && e.Number != op.Number {
			found = append(found, k.between(history.Entry{State: history.State{Version: e.Version, ID: op.ID}, Number: op.Number}, e))
		}
	}
	return found
}

func (k *known) between(lost, by history.Entry) Violation {
	invariant := "I9"
	if lost.Number > by.Number {
		invariant = "I1"
	}
	return k.violatedBy(invariant, by, "write %s under %d was overwritten under %d by one who had not read it: %v", lost.ID, lost.Number, by.Number, k.writes[by.ID])
}
