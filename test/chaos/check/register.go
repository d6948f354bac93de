package check

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// input is what an operation does: it reads, or it writes an entry.
type input struct {
	write bool
	to    content
	label string
}

// content is what a register holds, and whether that is nothing since somebody
// removed what was there.
type content struct {
	history.State
	removed bool
}

// shows is what a read sees.
func (c content) shows() history.State {
	if c.removed {
		return history.State{}
	}
	return c.State
}

// register is the model: a write makes the next version, a read sees the last one.
var register = porcupine.Model{
	Init: func() any { return content{} },
	Step: func(state, in, out any) (bool, any) {
		now, i := state.(content), in.(input)
		if !i.write {
			return now.shows() == out.(history.State), now
		}
		return i.to.Version == now.Version+1, i.to
	},
	DescribeOperation: func(in, out any) string {
		if i := in.(input); i.write {
			return fmt.Sprintf("%s: %d", i.label, i.to.Version)
		}
		return fmt.Sprintf("%s → %d", in.(input).label, out.(history.State).Version)
	},
	DescribeState: func(state any) string {
		s := state.(content)
		return fmt.Sprintf("%d (%s)", s.Version, s.ID)
	},
}

// Register says whether the register is linearizable: whether reads and applied
// writes fit one order that agrees with the clock. Unknown means that limit was
// too short. The picture shows it, by (*Picture).Draw.
func (c Case) Register(limit time.Duration) (porcupine.CheckResult, Picture) {
	result, info := porcupine.CheckOperationsVerbose(register, c.operations(), limit)
	return result, Picture{info}
}

// Picture is a history to look at.
type Picture struct{ info porcupine.LinearizationInfo }

// Draw writes the picture to an HTML file.
func (p Picture) Draw(path string) error {
	return porcupine.VisualizePath(register, p.info, path)
}

// operations are the reads that were answered under a current token, and the
// writes that were applied. One that nobody was told of may have been applied
// at any time after it began.
func (c Case) operations() []porcupine.Operation {
	k := newKnown(c)
	clients := map[string]int{}
	var end int64 // of the history
	for _, op := range k.Ops {
		end = max(end, op.Began+1, op.Ended+1)
	}
	var all []porcupine.Operation
	for _, op := range k.Ops {
		i, ended := input{label: fmt.Sprintf("%s %d by %s", op.Kind, op.Number, op.Way)}, op.Ended
		place, applied := k.place[op.ID]
		switch {
		case op.Is(history.Read, guard.Applied):
		case op.Kind != history.Write:
			continue
		case applied:
			i.write, i.to = true, content{k.Applied[place].State, op.Removal}
		case op.Over() && op.Outcome == guard.Applied: // lost: it takes a version that is another's
			i.write, i.to = true, content{history.State{Version: op.Seen.Version + 1, ID: op.ID}, op.Removal}
		default:
			continue
		}
		if i.write && (!op.Over() || op.Outcome != guard.Applied) {
			ended = end
		}
		client, ok := clients[op.Holder]
		if !ok {
			client = len(clients)
			clients[op.Holder] = client
		}
		all = append(all, porcupine.Operation{ClientId: client, Input: i, Output: op.Seen, Call: op.Began, Return: ended})
	}
	return all
}
