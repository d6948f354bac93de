package check_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

func TestChain(t *testing.T) {
	t.Parallel()
	var s story
	s.write(33, "w1", 0)
	s.write(33, "lost", 1)
	s.write(34, "w2", 1)
	s.write(34, "w3", 2)
	last := history.Entry{State: history.State{Version: 3, ID: "w3"}, Number: 34, Prev: "w2"}
	if diff := cmp.Diff(entries("33:w1 34:w2<w1 34:w3<w2"), check.Chain(last, s.ops)); diff != "" {
		t.Error(diff)
	}
	if none := check.Chain(history.Entry{}, s.ops); none != nil {
		t.Errorf("of nothing: %v", none)
	}
}

// A key of S3 that is deleted and made anew. Whoever reads that there is nothing
// does not know whose removal that was.
func TestRemovals(t *testing.T) {
	t.Parallel()
	remove := func(s *story, number int64, id string, seen int64, outcome guard.Outcome) {
		s.op(history.Write, number, id, seen, outcome, "")
		s.last().Removal = true
	}
	for _, c := range []struct {
		name    string
		story   func(*story)
		last    history.Entry
		applied string
		want    []string
	}{
		{
			name: "made anew by who removed it",
			story: func(s *story) {
				s.write(33, "w1", 0)
				remove(s, 33, "w2", 1, guard.Applied)
				s.write(33, "w3", 2)
			},
			last: entry("w3", 33, "w2"), applied: "33:w1 33:w2<w1 33:w3<w2",
		},
		{
			name: "made anew by another, who has seen nothing",
			story: func(s *story) {
				s.write(33, "w1", 0)
				remove(s, 33, "x", 1, guard.Unknown)
				remove(s, 33, "w2", 1, guard.Unknown)
				s.read(34, 0)
				s.write(34, "w3", 0)
				s.write(34, "w4", 3)
			},
			last: entry("w4", 34, "w3"), applied: "33:w1 33:w2<w1 34:w3 34:w4<w3",
		},
		{
			name: "twice, and one that did not happen",
			story: func(s *story) {
				s.write(33, "w1", 0)
				remove(s, 33, "x", 1, guard.Unknown)
				s.write(33, "w2", 1)
				remove(s, 33, "w3", 2, guard.Applied)
				s.write(34, "w4", 0)
				remove(s, 34, "w5", 4, guard.Unknown)
				s.read(35, 0)
			},
			applied: "33:w1 33:w2<w1 33:w3<w2 34:w4 34:w5<w4",
		},
		{
			name: "a stale write after a removal",
			story: func(s *story) {
				s.write(33, "w1", 0)
				remove(s, 34, "w2", 1, guard.Applied)
				s.write(33, "w3", 0)
			},
			last: entry("w3", 33, ""), applied: "33:w1 34:w2<w1 33:w3", want: []string{"I1", "I1"},
		},
		{
			name: "a write that somebody who had not read it removed",
			story: func(s *story) {
				s.write(33, "w1", 0)
				s.write(34, "lost", 1)
				remove(s, 33, "w2", 1, guard.Applied)
			},
			applied: "", want: []string{"I2", "I2", "I2"},
		},
	} {
		var s story
		c.story(&s)
		k := check.Case{From: check.Touched, Ops: s.ops, Applied: check.Chain(c.last, s.ops), Now: c.last.State}
		if diff := cmp.Diff(entries(c.applied), k.Applied); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
		var got []string
		for _, v := range k.All() {
			got = append(got, v.Invariant)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
		if result, _ := k.Register(time.Minute); len(c.want) == 0 && result != porcupine.Ok {
			t.Errorf("%s: linearizable: %s", c.name, result)
		}
	}
}

func entry(id string, number int64, prev string) history.Entry {
	return history.Entry{State: history.State{Version: 1, ID: id}, Number: number, Prev: prev}
}
