package check_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
)

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
