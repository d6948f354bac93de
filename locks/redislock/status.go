package redislock

import (
	"cmp"
	"context"
	_ "embed" // status.lua
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

//go:embed status.lua
var statusSource string

var _ locks.StatusLocker = (*Locker)(nil)

// Status implements locks.StatusLocker. All of it is of one moment. Waiters have
// no number yet. The issuer is that of the Config, also of holders whose Config
// has another one: Redis does not know it. It takes the permission to run a
// script that reads the lock's keys and the time.
func (l *Locker) Status(ctx context.Context, resource string) (locks.Status, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return locks.Status{}, err
	}
	keys := l.config.keys(resource, "")
	// Sent as text, since a script that only looks need not be there for long;
	// the client repeats it by itself.
	items, err := l.client.Eval(ctx, statusSource, keys[:len(keys)-1]).Slice()
	var seen snapshot
	if err == nil {
		seen, err = readSnapshot(items)
	}
	if err != nil {
		return locks.Status{}, fmt.Errorf("read the lock of %q: %w", resource, explain(err))
	}
	return seen.status(resource, l.config.Issuer), nil
}

// snapshot is what status.lua returns.
type snapshot struct {
	now   int64             // in ms
	held  map[string]string // member to number
	queue []string          // members, oldest first
	until map[string]string // member to time in ms
}

func readSnapshot(items []any) (snapshot, error) {
	if len(items) != 4 {
		return snapshot{}, fmt.Errorf("script returned %d items", len(items))
	}
	lists := make([][]string, 3)
	for i := range lists {
		list, ok := items[i+1].([]any)
		if !ok {
			return snapshot{}, fmt.Errorf("script returned %v", items)
		}
		for _, item := range list {
			text, ok := item.(string)
			if !ok {
				return snapshot{}, fmt.Errorf("script returned %v", items)
			}
			lists[i] = append(lists[i], text)
		}
	}
	now, ok := items[0].(int64)
	if !ok {
		return snapshot{}, errors.New("script returned no time")
	}
	return snapshot{now: now, held: pairs(lists[0]), queue: lists[1], until: pairs(lists[2])}, nil
}

func pairs(list []string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(list, 2) {
		m[pair[0]] = pair[len(pair)-1]
	}
	return m
}

func (s snapshot) status(resource, issuer string) locks.Status {
	status := locks.Status{Resource: resource, Issuer: issuer}
	for member, number := range s.held {
		p := s.place(member)
		p.Number, _ = strconv.ParseInt(number, 10, 64)
		p.Issuer = issuer
		status.Holders = append(status.Holders, p)
	}
	slices.SortFunc(status.Holders, func(a, b locks.Place) int { return cmp.Compare(a.Number, b.Number) })
	for _, member := range s.queue {
		status.Waiters = append(status.Waiters, s.place(member))
	}
	return status
}

// place reads what a member says (its mode, its holder, a colon, its locker), and
// its time.
func (s snapshot) place(member string) locks.Place {
	var p locks.Place
	holder, _, _ := strings.Cut(member, ":")
	for _, mode := range []guard.Mode{guard.Exclusive, guard.Shared} {
		if id, ok := strings.CutPrefix(holder, mode.String()); ok {
			p.Mode, holder = mode, id
			break
		}
	}
	p.Holder = holder
	if until, err := strconv.ParseFloat(s.until[member], 64); err == nil {
		p.Left, p.Timed = time.Duration(int64(until)-s.now)*time.Millisecond, true
	}
	return p
}
