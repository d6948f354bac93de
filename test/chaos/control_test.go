package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/stage"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// controls are the ways in that are no fences, each with a register of its own.
func controls() (plans []stage.Plan) {
	for _, way := range []string{ways.Unchecked, ways.LookFirst, ways.SnapshotCheck, ways.S3Unchecked, ways.S3ContentMatch} {
		plans = append(plans, stage.Plan{Locks: stage.Redis, Ways: []string{way}})
	}
	return plans
}

// many are at least five registers, of the ways that have shown nothing so far: one
// that is wrong only now and then gets more of them.
func many(left []stage.Plan) []stage.Plan { return slices.Repeat(left, (4+len(left))/len(left)) }

// fatal are the invariants whose violation costs data.
var fatal = []string{"I1", "I2", "I9"}

// TestControlGroup: the same workers and the same faults with ways in that are no
// fences. Each of them must show violations, or else the runs with fences could
// not have seen any.
func TestControlGroup(t *testing.T) {
	const (
		limit = 3 * time.Minute // of rounds; on a busy machine little happens in one
		lasts = 6 * time.Second
	)
	c := newCampaign(t, "Control group", stage.Config{Locks: []string{stage.Redis}})
	defer c.end()
	left := controls()
	for spent := time.Duration(0); len(left) > 0; spent += lasts {
		if spent >= limit {
			t.Fatalf("%v showed nothing within %v: neither would a fence that leaks", left, limit)
		}
		found := c.round(stage.Round{Lasts: lasts, Every: 150 * time.Millisecond, AtOnce: 4, Workers: 4, Hands: 4, Plans: many(left)})
		left = slices.DeleteFunc(left, func(p stage.Plan) bool {
			return slices.ContainsFunc(found, func(v check.Violation) bool {
				return slices.Contains(p.Ways, v.Way) && slices.Contains(fatal, v.Invariant)
			})
		})
	}
}
