package check_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// story makes a history: each act takes two ticks, if not said otherwise, and
// begins one after that before it.
type story struct {
	now int64
	ops []history.Op
}

func (s *story) op(kind history.Kind, number int64, id string, seen int64, outcome guard.Outcome, reason string) {
	op := history.Op{
		ID: id, Kind: kind, Way: "pgstore", Number: number, Holder: fmt.Sprint("h", number),
		Seen: history.State{Version: seen}, Began: s.now + 1, Ended: s.now + 2, Outcome: outcome, Reason: reason,
	}
	if seen > 0 {
		op.Seen.ID = fmt.Sprint("w", seen)
	}
	s.now += 2
	s.ops = append(s.ops, op)
}

func (s *story) claim(number int64) {
	s.op(history.Claim, number, fmt.Sprint("c", number), 0, guard.Applied, "")
}

func (s *story) read(number, seen int64) {
	s.op(history.Read, number, fmt.Sprint("r", s.now), seen, guard.Applied, "")
}

func (s *story) write(number int64, id string, seen int64) {
	s.op(history.Write, number, id, seen, guard.Applied, "")
}

// last is the last act, to be changed.
func (s *story) last() *history.Op { return &s.ops[len(s.ops)-1] }

// begins moves the beginning of the last act to another time.
func (s *story) begins(at int64) { s.last().Began = at }

// entries are a register: "33:w1 33:w2<w1" is number, ID, and what was read.
func entries(text string) (all []history.Entry) {
	for i, word := range strings.Fields(text) {
		e := history.Entry{State: history.State{Version: int64(i + 1)}}
		head, prev, _ := strings.Cut(word, "<")
		number, id, _ := strings.Cut(head, ":")
		_, _ = fmt.Sscan(number, &e.Number)
		e.ID, e.Prev = id, prev
		all = append(all, e)
	}
	return all
}

const second = int64(time.Second)

var cases = []struct {
	name    string
	from    check.From
	story   func(*story)
	applied string
	faults  [][2]int64
	want    []string // invariants
	orders  bool     // is linearizable all the same
}{
	{
		name: "two holders in turn",
		story: func(s *story) {
			s.claim(33)
			s.read(33, 0)
			s.write(33, "w1", 0)
			s.claim(34)
			s.op(history.Write, 33, "x", 1, guard.Refused, "stale")
			s.read(34, 1)
			s.write(34, "w2", 1)
		},
		applied: "33:w1 34:w2<w1", orders: true,
	},
	{
		name: "a write of which nothing is known was applied",
		story: func(s *story) {
			s.claim(33)
			s.op(history.Write, 33, "w1", 0, guard.Unknown, "")
			s.read(33, 0)
			s.read(33, 1)
		},
		applied: "33:w1", orders: true,
	},
	{
		name: "a lower number behind a higher one",
		story: func(s *story) {
			s.claim(33)
			s.claim(34)
			s.write(34, "w1", 0)
			s.write(33, "w2", 1)
			s.begins(1)
		},
		applied: "34:w1 33:w2<w1", want: []string{"I1"}, orders: true,
	},
	{
		name: "a lower number behind what a higher one has read",
		story: func(s *story) {
			s.claim(33)
			s.claim(34)
			s.read(34, 0)
			s.write(33, "w1", 0)
			s.begins(1)
		},
		applied: "33:w1", want: []string{"I1"}, orders: true,
	},
	{
		name: "the same at a key of S3, which nobody has touched",
		from: check.Touched,
		story: func(s *story) {
			s.claim(33)
			s.claim(34)
			s.read(34, 0)
			s.write(33, "w1", 0)
		},
		applied: "33:w1", orders: true,
	},
	{
		name: "begun after a higher number's claim had returned",
		story: func(s *story) {
			s.claim(33)
			s.claim(34)
			s.write(33, "w1", 0)
		},
		applied: "33:w1", want: []string{"I1"}, orders: true,
	},
	{
		name: "begun after a higher number's write had returned",
		from: check.Touched,
		story: func(s *story) {
			s.write(34, "w1", 0)
			s.write(33, "w2", 1)
		},
		applied: "34:w1 33:w2<w1", want: []string{"I1", "I1"}, orders: true,
	},
	{
		name:    "acknowledged and not there",
		story:   func(s *story) { s.claim(33); s.write(33, "w1", 0) },
		applied: "", want: []string{"I2"}, orders: true,
	},
	{
		name: "refused and there",
		story: func(s *story) {
			s.claim(33)
			s.op(history.Write, 33, "w1", 0, guard.Refused, "unclaimed")
			s.last().Holder = "nobody"
			s.op(history.Write, 33, "w2", 1, guard.NotApplied, "")
		},
		applied: "33:w1 33:w2<w1", want: []string{"I2", "I2"}, orders: true,
	},
	{
		name:    "there and of nobody, or of another number, or twice",
		story:   func(s *story) { s.claim(33); s.write(33, "w1", 0) },
		applied: "33:x 32:w1<x 33:w1<w1", want: []string{"I1", "I2", "I2", "I2"},
	},
	{
		name: "the current holder is refused",
		story: func(s *story) {
			s.claim(33)
			s.op(history.Write, 33, "w1", 0, guard.Refused, "stale")
		},
		want: []string{"I3"}, orders: true,
	},
	{
		name: "it is told that it has not claimed",
		story: func(s *story) {
			s.claim(33)
			s.op(history.Write, 33, "w1", 0, guard.Refused, "unclaimed")
		},
		want: []string{"I3"}, orders: true,
	},
	{
		name: "it is refused while the next one begins to claim",
		story: func(s *story) {
			s.claim(33)
			s.op(history.Write, 33, "w1", 0, guard.Refused, "stale")
			s.claim(34)
			s.begins(s.now - 3)
		},
		orders: true,
	},
	{
		name: "a claim that takes too long",
		story: func(s *story) {
			s.claim(33)
			s.last().Ended += 10 * second
		},
		want: []string{"I4"}, orders: true,
	},
	{
		name: "a claim that takes long while something is broken",
		story: func(s *story) {
			s.claim(33)
			s.last().Ended += 10 * second
		},
		faults: [][2]int64{{0, second}, {second / 2, 9 * second}},
		orders: true,
	},
	{
		name: "faults that were over before the claim began, or that began later",
		story: func(s *story) {
			s.now = 20 * second
			s.claim(33)
			s.last().Ended += 10 * second
		},
		faults: [][2]int64{{0, 10 * second}, {40 * second, 60 * second}},
		want:   []string{"I4"}, orders: true,
	},
	{
		name: "two holders with one number",
		story: func(s *story) {
			s.claim(33)
			s.claim(33)
			s.last().Holder = "another"
		},
		want: []string{"I8"}, orders: true,
	},
	{
		name: "two readers with one number",
		story: func(s *story) {
			s.claim(33)
			s.last().Shared = true
			s.claim(33)
			s.last().Shared, s.last().Holder = true, "another"
		},
		orders: true,
	},
	{
		name: "overwritten from a read made before",
		story: func(s *story) {
			s.write(33, "w1", 0)
			s.claim(34)
			s.begins(1)
			s.write(34, "w2", 0)
		},
		applied: "33:w1 34:w2", want: []string{"I9"}, orders: true,
	},
	{
		name: "overwritten with no trace left",
		from: check.Touched,
		story: func(s *story) {
			s.write(33, "x", 0)
			s.write(34, "w1", 0)
		},
		applied: "34:w1", want: []string{"I2", "I9"},
	},
	{
		name: "one's own write, late",
		story: func(s *story) {
			s.claim(33)
			s.op(history.Write, 33, "w1", 0, guard.Unknown, "")
			s.write(33, "w2", 0)
		},
		applied: "33:w1 33:w2", orders: true,
	},
	{
		name: "read before it was written",
		story: func(s *story) {
			s.read(33, 1)
			s.write(33, "w1", 0)
		},
		applied: "33:w1",
	},
	{
		name: "read when it had been overwritten",
		story: func(s *story) {
			s.write(33, "w1", 0)
			s.write(33, "w2", 1)
			s.read(33, 1)
		},
		applied: "33:w1 33:w2<w1",
	},
}

func TestChecks(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var s story
			c.story(&s)
			k := check.Case{Resource: "r", From: c.from, Ops: s.ops, Applied: entries(c.applied), ClaimLimit: 5 * time.Second}
			if n := len(k.Applied); n > 0 {
				k.Now = k.Applied[n-1].State
			}
			for _, f := range c.faults {
				k.Faults = append(k.Faults, history.Op{Kind: history.Fault, Began: f[0], Ended: f[1]})
			}
			var got []string
			for _, v := range k.All() {
				t.Log(v)
				got = append(got, v.Invariant)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var s story
			c.story(&s)
			k := check.Case{Resource: "r", From: c.from, Ops: s.ops, Applied: entries(c.applied)}
			result, picture := k.Register(time.Minute)
			if (result == porcupine.Ok) != c.orders {
				t.Errorf("linearizable: %s", result)
			}
			if err := picture.Draw(filepath.Join(t.TempDir(), "register.html")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNowIsTheLastWrite(t *testing.T) {
	t.Parallel()
	var s story
	s.write(33, "w1", 0)
	k := check.Case{Ops: s.ops, Applied: entries("33:w1")}
	if found := k.All(); len(found) != 1 || found[0].Invariant != "I2" {
		t.Errorf("the register is empty, and %v", found)
	}
}

func TestMarkIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mark guard.Mark
		want int
	}{
		{guard.Mark{Writer: 35, Reader: 34}, 0},
		{guard.Mark{Writer: 34, Reader: 34}, 1},
		{guard.Mark{Writer: 36, Reader: 33}, 1},
	} {
		var s story
		s.claim(33)
		s.claim(34)
		s.last().Shared = true
		s.claim(35)
		k := check.Case{Ops: s.ops, Mark: &c.mark}
		if found := k.All(); len(found) != c.want || c.want == 1 && found[0].Invariant != "I6" {
			t.Errorf("mark %+v: %v", c.mark, found)
		}
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

func TestClaimsThatComeTooLate(t *testing.T) {
	t.Parallel()
	shared := func(s *story, number int64) { s.claim(number); s.last().Shared = true }
	for _, c := range []struct {
		name  string
		story func(*story)
		want  int
	}{
		{"a lower one", func(s *story) { s.claim(34); s.claim(33) }, 1},
		{"a lower one that had begun", func(s *story) { s.claim(34); s.claim(33); s.begins(1) }, 0},
		{"again", func(s *story) { s.claim(33); s.claim(34); s.claim(33) }, 0},
		{"a writer after a reader", func(s *story) { shared(s, 34); s.claim(33) }, 1},
		{"a reader after a writer", func(s *story) { s.claim(34); shared(s, 33) }, 1},
		{"a reader after a reader", func(s *story) { shared(s, 34); shared(s, 33) }, 0},
	} {
		var s story
		c.story(&s)
		k := check.Case{Ops: s.ops, Mark: &guard.Mark{Writer: 34, Reader: 34}}
		if found := k.All(); len(found) != c.want || c.want == 1 && found[0].Invariant != "I6" {
			t.Errorf("%s: %v", c.name, found)
		}
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
