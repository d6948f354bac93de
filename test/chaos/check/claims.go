package check

import (
	"time"

	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// claims finds numbers with which two holders passed a claim (I8), and claims that
// took longer than they may, the time of faults not counted (I4).
func claims(k *known) (found []Violation) {
	holder := map[int64]history.Op{}
	for _, op := range k.Ops {
		if op.Kind != history.Claim {
			continue
		}
		if claimed(op) {
			if other, ok := holder[op.Number]; ok && other.Holder != op.Holder && (!op.Shared || !other.Shared) {
				found = append(found, k.violated("I8", op, "holders %s and %s both passed a claim with number %d", other.Holder, op.Holder, op.Number))
			}
			holder[op.Number] = op
		}
		if k.ClaimLimit == 0 || !op.Over() {
			continue
		}
		if took := undisturbed(op, k.Faults); took > k.ClaimLimit {
			found = append(found, k.violated("I4", op, "took %v beside all faults, may take %v: %v, %s", took, k.ClaimLimit, op, op.Error))
		}
	}
	return found
}

// undisturbed is how much of the time of op no fault was going on.
func undisturbed(op history.Op, faults []history.Op) time.Duration {
	at, free := op.Began, int64(0)
	for _, f := range faults { // in the order in which they began
		if f.Began >= op.Ended {
			break
		}
		if f.Began > at {
			free += f.Began - at
		}
		if !f.Over() {
			return time.Duration(free)
		}
		at = max(at, f.Ended)
	}
	return time.Duration(free + max(0, op.Ended-at))
}
