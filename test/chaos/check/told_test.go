package check_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

func TestNowIsTheLastWrite(t *testing.T) {
	t.Parallel()
	var s story
	s.write(33, "w1", 0)
	k := check.Case{Ops: s.ops, Applied: entries("33:w1")}
	if found := k.All(); len(found) != 1 || found[0].Invariant != "I2" {
		t.Errorf("the register is empty, and %v", found)
	}
}

func TestHalfOfATransaction(t *testing.T) {
	t.Parallel()
	for applied, want := range map[string]int{"": 1, "33:w2": 0} {
		var one, other story
		one.op(history.Write, 33, "w1", 0, guard.Unknown, "")
		other.op(history.Write, 33, "w2", 0, guard.Unknown, "")
		other.last().With = "w1"
		cases := []check.Case{{Ops: one.ops, Applied: entries("33:w1")}, {Ops: other.ops, Applied: entries(applied)}}
		if found := check.Halves(cases); len(found) != want {
			t.Errorf("with %q: %v", applied, found)
		}
	}
}
