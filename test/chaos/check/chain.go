package check

import (
	"slices"

	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Chain finds the writes that a register remembers which keeps only the last one:
// each names the one that its writer had read, and that one's writer has recorded
// what it had read itself, before it wrote.
func Chain(last history.Entry, ops []history.Op) (applied []history.Entry) {
	k := newKnown(Case{Ops: ops})
	for e := last; e.ID != ""; {
		applied = append(applied, e)
		op, known := k.writes[e.Prev]
		if !known || e.Version < 1 {
			break
		}
		e = history.Entry{State: history.State{Version: op.Seen.Version + 1, ID: op.ID}, Number: op.Number, Prev: op.Seen.ID}
	}
	slices.Reverse(applied)
	return applied
}
