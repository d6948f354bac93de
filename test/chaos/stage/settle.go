package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
	"github.com/fenceproxy/fenceproxy/test/chaos/worker"
)

// settleLimit is how long it may take until a lock whose holders have all gone is
// free: a lease, an election, and much more.
const settleLimit = 60 * time.Second

// settle does, when all is in order again, what a new holder of each resource
// does. No lock may be left that nobody holds (I8), and nobody left who keeps a
// claim waiting (I4).
func (s *Stage) settle(record *history.Recorder, resources []worker.Resource) (found []check.Violation, slowest string) {
	s.tb.Helper()
	services := map[string]*lockurl.Service{}
	defer func() {
		for _, service := range services {
			_ = service.Close() // what it holds ends by its time
		}
	}()
	for _, r := range resources {
		if _, ok := services[r.Locks]; !ok {
			service, err := s.open(r.Locks)
			if err != nil {
				s.tb.Fatalf("open lock service %s when all is in order: %v", r.Locks, err)
			}
			services[r.Locks] = service
		}
	}
	var mu sync.Mutex
	var longest time.Duration
	var all sync.WaitGroup
	for _, r := range resources {
		all.Go(func() {
			for _, name := range r.Ways {
				took := stopwatch(time.Now())
				v := s.visits(record, services[r.Locks], r, name)
				mu.Lock()
				if v != nil {
					found = append(found, *v)
				}
				if d := took.next(); d > longest {
					longest, slowest = d, fmt.Sprintf("%s at %s by %s", d.Round(time.Second/10), r.Name, name)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return found, slowest
}

// visits is holders by one way in until one gets all done: links may still have a
// reply or two to lose. It is a violation if none does.
func (s *Stage) visits(record *history.Recorder, service *lockurl.Service, r worker.Resource, name string) (v *check.Violation) {
	for deadline := time.Now().Add(settleLimit); time.Now().Before(deadline); {
		var err error
		if v, err = s.visit(record, service, r, name); v == nil || guard.OutcomeOf(err) == guard.Refused {
			return v
		}
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
	}
	return v
}

func (s *Stage) open(url string) (*lockurl.Service, error) {
	target, err := lockurl.Parse(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.tb.Context(), settleLimit)
	defer cancel()
	return target.Open(ctx, TTL)
}

// visit is one holder, by one way in: it claims, reads and writes.
func (s *Stage) visit(record *history.Recorder, service *lockurl.Service, r worker.Resource, name string) (*check.Violation, error) {
	ctx, cancel := context.WithTimeout(s.tb.Context(), settleLimit)
	defer cancel()
	wrong := func(invariant, doing string, err error) (*check.Violation, error) {
		return &check.Violation{Invariant: invariant, Resource: r.Name, Way: name, At: history.Now(), Text: fmt.Sprintf("%s, when all was in order again: %v", doing, err)}, err
	}
	lease, err := service.Acquire(ctx, r.Name)
	if err != nil {
		return wrong("I8", "acquire", err)
	}
	defer func() { _ = lease.Release(ctx) }() // else it ends by its time
	way, err := ways.Open(name, s.direct, rand.New(rand.NewPCG(0, 0)))
	if err != nil {
		return wrong("I4", "open", err)
	}
	defer way.Close()
	token := lease.Token()
	op := history.Op{Way: name, Resource: r.Name, Number: token.Number, Holder: token.Holder}
	act := func(kind history.Kind, f func(op *history.Op) error) error {
		o := op
		o.Kind = kind
		o = record.Begin(o)
		err := f(&o)
		record.End(o, guard.OutcomeOf(err), ways.Reason(err), err)
		return err
	}
	var tenure ways.Tenure
	err = act(history.Claim, func(*history.Op) (err error) { tenure, err = way.Enter(ctx, token, r.Register); return err })
	if err != nil {
		return wrong("I4", "claim", err)
	}
	defer tenure.Leave()
	err = act(history.Read, func(o *history.Op) (err error) { o.Seen, err = tenure.Read(ctx); op.Seen = o.Seen; return err })
	if err != nil {
		return wrong("I3", "read", err)
	}
	err = act(history.Write, func(o *history.Op) (err error) {
		e := history.Entry{State: history.State{Version: o.Seen.Version + 1, ID: o.ID}, Number: o.Number, Prev: o.Seen.ID}
		_, err = tenure.Write(ctx, e, func() {})
		return err
	})
	if err != nil {
		return wrong("I3", "write", err)
	}
	return nil, nil
}
