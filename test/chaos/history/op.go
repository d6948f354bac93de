package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Kind is what an Op does.
type Kind string

const (
	// Claim: the first act of a new holder at the resource.
	Claim Kind = "claim"
	// Read reads the register.
	Read Kind = "read"
	// Write writes the register.
	Write Kind = "write"
	// Fault is something that the nemesis did; its Way is the fault's name.
	Fault Kind = "fault"
)

// State is what a register holds: its last write. The zero State is that of one
// that nobody has written.
type State struct {
	// Version counts the writes of the register.
	Version int64 `json:"version,omitempty"`
	// ID is that of the Op that wrote it.
	ID string `json:"id,omitempty"`
}

// Entry is a write as the resource itself remembers it.
type Entry struct {
	State
	// Number is that of the token that it was written under.
	Number int64 `json:"number"`
	// Prev is the ID of the write that its writer had read before.
	Prev string `json:"prev,omitempty"`
}

// Op is one act of one process. Its fields up to Seen are known before it begins,
// but for what a Read has seen.
type Op struct {
	// ID is different for each Op of a history.
	ID   string `json:"op"`
	Kind Kind   `json:"kind"`
	// Way is the way in that it took.
	Way      string `json:"way"`
	Resource string `json:"resource,omitempty"`
	// Number, Holder and Shared are those of the token.
	Number int64  `json:"number,omitempty"`
	Holder string `json:"holder,omitempty"`
	Shared bool   `json:"shared,omitempty"`
	// Seen is what a Read has read, and what a Write was based on.
	Seen State `json:"seen,omitzero"`
	// Removal is of a Write that leaves nothing. Whoever reads that sees the zero
	// State, as if nobody had ever written.
	Removal bool `json:"removal,omitempty"`
	// With is the ID of the Op of another resource that was in the same transaction,
	// and began before this one.
	With string `json:"with,omitempty"`
	// Began and Ended are times of Now; Ended is 0 while nothing is known.
	Began int64 `json:"began"`
	Ended int64 `json:"ended,omitempty"`
	// Outcome is what the process was told; only with an Ended.
	Outcome guard.Outcome `json:"outcome,omitempty"`
	// Reason is why it was not applied, in a word: stale, duplicate, blocked.
	Reason string `json:"reason,omitempty"`
	// Error is all that was said.
	Error string `json:"error,omitempty"`
}

// Over reports whether the process was told how it ended.
func (o Op) Over() bool { return o.Ended != 0 }

// Is reports whether o is of the kind and ended with the outcome.
func (o Op) Is(kind Kind, outcome guard.Outcome) bool {
	return o.Kind == kind && o.Outcome == outcome && o.Over()
}

// Overlaps reports whether a moment of o was in the time from begin to end.
func (o Op) Overlaps(begin, end int64) bool {
	return o.Began <= end && (!o.Over() || o.Ended >= begin)
}

// String names the act and how it ended.
func (o Op) String() string {
	how := "never ended"
	if o.Over() {
		how = o.Outcome.String()
	}
	if o.Reason != "" {
		how += " (" + o.Reason + ")"
	}
	kind := string(o.Kind)
	if o.Removal {
		kind = "removal"
	}
	return fmt.Sprintf("%s %s under %d by %s at %s, based on %d, %.6f–%.6f s: %s", kind, o.ID, o.Number, o.Way, o.Resource, o.Seen.Version, seconds(o.Began), seconds(o.Ended), how)
}

func seconds(at int64) float64 { return float64(at) / 1e9 }

// InOrder sorts ops by their beginning.
func InOrder(ops []Op) {
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Began, b.Began) })
}
