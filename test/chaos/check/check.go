package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// From says from when on a register is closed to lower numbers.
type From int

const (
	// Claimed: once a claim of a higher number has returned.
	Claimed From = iota
	// Touched: once a holder of a higher number has written it; before that a
	// request that is under way may still arrive. So it is with keys of S3.
	Touched
)

// Case is all that is known of one register.
type Case struct {
	Resource string
	From     From
	// Ops are those at this register, Faults those of kind Fault.
	Ops, Faults []history.Op
	// Applied are the writes that the register remembers, each the one whose
	// version is next.
	Applied []history.Entry
	// Now is what it holds.
	Now history.State
	// Mark is what the resource remembers of tokens; nil if it remembers none.
	Mark *guard.Mark
	// ClaimLimit is how long a claim may take, faults not counted. 0: any time.
	ClaimLimit time.Duration
}

// Violation is something that must not happen.
type Violation struct {
	// Invariant is its name, like "I1".
	Invariant string
	Resource  string
	// Way is that of the Op that should not have come out as it did.
	Way string
	// At is when that Op began.
	At   int64
	Text string
}

// String names the invariant and tells what happened.
func (v Violation) String() string {
	return fmt.Sprintf("%s at %s by %s: %s", v.Invariant, v.Resource, v.Way, v.Text)
}

// All runs every check but the one of the register as a whole.
func (c Case) All() []Violation {
	k := newKnown(c)
	var found []Violation
	for _, check := range []func(*known) []Violation{stale, told, current, claims, marked, overwritten} {
		found = append(found, check(k)...)
	}
	return found
}

// known is a case with what the checks look up.
type known struct {
	Case
	writes map[string]history.Op // by ID
	place  map[string]int        // in Applied, by ID
}

func newKnown(c Case) *known {
	k := &known{Case: c, writes: map[string]history.Op{}, place: map[string]int{}}
	for i, entry := range c.Applied {
		k.place[entry.ID] = i
	}
	if c.From == Touched {
		k.renumber()
	}
	for _, op := range k.Ops {
		if op.Kind == history.Write {
			k.writes[op.ID] = op
		}
	}
	return k
}

// renumber counts versions as Applied does, see Chain.
func (k *known) renumber() {
	counted := func(s history.State) history.State {
		if i, ok := k.place[s.ID]; ok {
			s.Version = k.Applied[i].Version
		}
		return s
	}
	k.Now = counted(k.Now)
	k.Ops = slices.Clone(k.Ops)
	for i := range k.Ops {
		k.Ops[i].Seen = counted(k.Ops[i].Seen)
	}
}

// removed reports whether nothing is there since the write.
func (k *known) removed(id string) bool { return k.writes[id].Removal }

func (k *known) applied(op history.Op) bool {
	_, ok := k.place[op.ID]
	return ok
}

// violated is a violation by op.
func (k *known) violated(invariant string, op history.Op, format string, args ...any) Violation {
	return Violation{Invariant: invariant, Resource: k.Resource, Way: op.Way, At: op.Began, Text: fmt.Sprintf(format, args...)}
}

// violatedBy is a violation by an entry, whose Op need not be known.
func (k *known) violatedBy(invariant string, e history.Entry, format string, args ...any) Violation {
	return k.violated(invariant, k.writes[e.ID], format, args...)
}

func claimed(op history.Op) bool { return op.Is(history.Claim, guard.Applied) }
