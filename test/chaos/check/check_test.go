package check_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

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
