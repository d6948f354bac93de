package check

import (
	"cmp"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Chain finds the writes that a register remembers which keeps only the last one:
// each names the one that its writer had read, and that one's writer has recorded
// what it had read itself, before it wrote. Last is the zero Entry if there is
// nothing. Versions are counted anew: whoever writes after a removal of which it
// has only seen that nothing was there knows of none.
func Chain(last history.Entry, ops []history.Op) (applied []history.Entry) {
	c := &chain{writes: map[string]history.Op{}, used: map[string]bool{}, after: map[string][]history.Op{}, seen: map[string]bool{}}
	for _, op := range ops {
		c.seen[op.Seen.ID] = true
		if op.Kind == history.Write {
			c.writes[op.ID] = op
			c.after[op.Seen.ID] = append(c.after[op.Seen.ID], op)
		}
	}
	for e, later := last, (history.Op{}); ; {
		if e.ID == "" { // nothing was there: never yet, or since a removal
			op, ok := c.removal(later)
			if !ok {
				break
			}
			e = entry(op)
		}
		if c.used[e.ID] {
			break
		}
		c.used[e.ID] = true
		applied = append(applied, e)
		later = c.writes[e.ID]
		op, known := c.writes[e.Prev]
		if e.Prev != "" && !known {
			break
		}
		e = history.Entry{}
		if known {
			e = entry(op)
		}
	}
	slices.Reverse(applied)
	for i := range applied {
		applied[i].Version = int64(i + 1)
	}
	return applied
}

// entry is what op writes.
func entry(op history.Op) history.Entry {
	return history.Entry{State: history.State{ID: op.ID}, Number: op.Number, Prev: op.Seen.ID}
}

// chain is what is known on the way back through the writes of a register.
type chain struct {
	writes map[string]history.Op   // by ID
	used   map[string]bool         // those that were found, by ID
	after  map[string][]history.Op // writes by what they are based on
	seen   map[string]bool         // what any act is based on
}

// removal finds the one that made way for later, whose writer has not seen whose it
// was. A state has one successor, so it is a removal of a state that has no other;
// the state that was written last, if there are several.
func (c *chain) removal(later history.Op) (found history.Op, ok bool) {
	for _, op := range c.writes {
		tip, known := c.writes[op.Seen.ID]
		switch {
		case !op.Removal || !known || c.used[op.ID] || c.used[tip.ID],
			op.Over() && (op.Outcome == guard.Refused || op.Outcome == guard.NotApplied),
			later.Over() && op.Began > later.Ended,
			slices.ContainsFunc(c.after[tip.ID], func(other history.Op) bool {
				return other.ID != op.ID && (other.Is(history.Write, guard.Applied) || c.seen[other.ID])
			}):
			continue
		}
		if !ok || c.compare(op, found) > 0 {
			found, ok = op, true
		}
	}
	return found, ok
}

// compare says which of two removals is the more likely one. Of several of one
// state, of none of which anybody knows, the one of the lowest number accuses
// nobody.
func (c *chain) compare(a, b history.Op) int {
	known := func(op history.Op) int {
		if op.Is(history.Write, guard.Applied) {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(c.writes[a.Seen.ID].Began, c.writes[b.Seen.ID].Began),
		cmp.Compare(known(a), known(b)), cmp.Compare(b.Number, a.Number), cmp.Compare(a.Began, b.Began))
}
