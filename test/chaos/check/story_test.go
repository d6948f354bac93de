package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
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
