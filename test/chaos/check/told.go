package check

import (
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// told finds writes that did not become what their writers were told (I2), and
// entries that nobody wrote, or twice.
func told(k *known) (found []Violation) {
	for _, op := range k.Ops {
		if op.Kind != history.Write || !op.Over() {
			continue
		}
		there := k.applied(op)
		switch op.Outcome {
		case guard.Applied:
			if !there {
				found = append(found, k.violated("I2", op, "acknowledged and not there: %v", op))
			}
		case guard.Refused, guard.NotApplied:
			if there {
				found = append(found, k.violated("I2", op, "%v and there: %v, %s", op.Outcome, op, op.Error))
			}
		default:
		}
	}
	var last history.Entry
	if n := len(k.Applied); n > 0 {
		last = k.Applied[n-1]
	}
	left := last.State
	if k.removed(last.ID) {
		left = history.State{}
	}
	if k.Now != left {
		found = append(found, k.violatedBy("I2", last, "the register holds version %d, %s; the last write that was applied is version %d, %s", k.Now.Version, k.Now.ID, last.Version, last.ID))
	}
	for i, e := range k.Applied {
		op, known := k.writes[e.ID]
		if !known {
			found = append(found, k.violatedBy("I2", e, "nobody wrote version %d, %s", e.Version, e.ID))
			continue
		}
		if op.Number != e.Number {
			found = append(found, k.violatedBy("I2", e, "version %d is of number %d, and was written under %d", e.Version, e.Number, op.Number))
		}
		if k.place[e.ID] != i {
			found = append(found, k.violatedBy("I2", e, "versions %d and %d are one write, applied twice: %v", e.Version, k.Applied[k.place[e.ID]].Version, op))
		}
	}
	return found
}

// Halves finds transactions about two registers that were applied to one of them
// (I2).
func Halves(cases []Case) (found []Violation) {
	there := map[string]bool{}
	for _, c := range cases {
		for _, e := range c.Applied {
			there[e.ID] = true
		}
	}
	for _, c := range cases {
		k := &known{Case: c}
		for _, op := range c.Ops {
			if op.Kind == history.Write && op.With != "" && there[op.ID] != there[op.With] {
				found = append(found, k.violated("I2", op, "one half of a transaction is there, of %s and %v", op.With, op))
			}
		}
	}
	return found
}
