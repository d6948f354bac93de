package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

func TestNewRefusesNegativeBound(t *testing.T) {
	t.Parallel()
	if g, err := memory.New(memory.Config{MaxResources: -1}); err == nil || g != nil {
		t.Errorf("got %v, %v", g, err)
	}
}

func TestMaxResources(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{MaxResources: 2})
	for range 2 {
		enter(t, g, writer("a", 1)).Exit()
		enter(t, g, writer("b", 1)).Exit()
		if _, err := g.Enter(t.Context(), guard.Token{Resource: "c"}); !errors.Is(err, guard.ErrMalformed) {
			t.Errorf("malformed token for a third resource: %v", err)
		}
		_, err := g.Enter(t.Context(), writer("c", 1))
		if !errors.Is(err, guard.ErrUnsupported) || guard.OutcomeOf(err) != guard.Refused {
			t.Errorf("third resource: %v (%v)", err, guard.OutcomeOf(err))
		}
		if err := g.Adopt(t.Context(), "c", "j"); !errors.Is(err, guard.ErrUnsupported) {
			t.Errorf("adopt a third resource: %v", err)
		}
	}
	if m := g.Mark("c"); m.Touched() {
		t.Errorf("a refused resource has mark %+v", m)
	}
}

func TestMalformedTokenLeavesNothing(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{MaxResources: 1})
	for _, c := range guardtest.Cases() {
		if c.Claim == guard.ErrMalformed { //nolint:errorlint // a row holds the sentinel itself
			if _, err := g.Enter(t.Context(), c.Token); !errors.Is(err, guard.ErrMalformed) {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	enter(t, g, writer("the only one", 1)).Exit()
}

func TestSecondExit(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	g := newGuard(t, memory.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	entry := enter(t, g, writer("orders", 33))
	entry.Exit()
	if lines.Len() > 0 {
		t.Errorf("a first Exit is logged: %s", &lines)
	}
	entry.Exit()
	if !strings.Contains(lines.String(), `level=ERROR msg="exit without entry" resource=orders`) {
		t.Errorf("a second Exit is not logged: %s", &lines)
	}
	inside := enter(t, g, writer("orders", 34))
	entry.Exit() // of a token that is over: not somebody else's
	if _, err := g.Enter(gone(t), writer("orders", 35)); !errors.Is(err, context.Canceled) {
		t.Errorf("enter 35 while 34 is inside: %v, want that it would wait", err)
	}
	inside.Exit()
	enter(t, g, writer("orders", 35)).Exit()
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	g := newGuard(t, memory.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	ofJ := writer("orders", 1)
	ofJ.Issuer = "j"
	inside := enter(t, g, writer("orders", 33))
	enter(t, g, writer("orders", 33)).Exit()

	err := g.Adopt(gone(t), "orders", "j")
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 of older tokens still inside") {
		t.Errorf("adopt while somebody is inside: %v", err)
	}
	if outcome := guard.OutcomeOf(err); outcome == guard.NotApplied || outcome == guard.Refused {
		t.Errorf("an adoption that stands is %v", outcome)
	}
	if want := (guard.Mark{Issuer: "j", Generation: 1}); g.Mark("orders") != want {
		t.Errorf("mark is %+v, want %+v", g.Mark("orders"), want)
	}
	if !strings.Contains(lines.String(), "resource adopted") || !strings.Contains(lines.String(), "issuer=j") {
		t.Errorf("an adoption is not logged: %s", &lines)
	}
	if _, err := g.Enter(t.Context(), writer("orders", 99)); !errors.Is(err, guard.ErrForeign) {
		t.Errorf("a token of the old issuer: %v", err)
	}
	if _, err := g.Enter(gone(t), ofJ); !errors.Is(err, context.Canceled) {
		t.Errorf("a token of the new issuer while the old one is inside: %v, want that it would wait", err)
	}

	done := make(chan error, 1)
	go func() { done <- g.Adopt(t.Context(), "orders", "k") }()
	for g.Mark("orders").Generation < 2 {
		select {
		case err := <-done:
			t.Fatalf("adopted while somebody is inside: %v", err)
		default:
		}
	}
	inside.Exit()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, issuer := range []string{"k3v9x0q2", "j", "k"} {
		if err := g.Adopt(t.Context(), "orders", issuer); err == nil {
			t.Errorf("adopted to %q again", issuer)
		}
	}
	if err := g.Adopt(t.Context(), "", "j"); !errors.Is(err, guard.ErrMalformed) {
		t.Errorf("adopted nothing: %v", err)
	}
	if err := g.Adopt(t.Context(), "orders", "j k"); !errors.Is(err, guard.ErrMalformed) {
		t.Errorf("adopted to what is no issuer: %v", err)
	}
}

func TestEnterAllocatesNothing(t *testing.T) {
	g := newGuard(t, memory.Config{})
	ctx := t.Context()
	for _, token := range []guard.Token{writer("orders", 42), reader("stock", 42)} {
		enter(t, g, token).Exit()
		allocs := testing.AllocsPerRun(1000, func() {
			entry, err := g.Enter(ctx, token)
			if err != nil {
				t.Error(err)
				return
			}
			entry.Exit()
		})
		if allocs != 0 {
			t.Errorf("%v: %v allocations", token, allocs)
		}
	}
}

// TestGuardAgreesWithTheModel enters, leaves and adopts at random and asks the
// model who is refused, and who would wait: a writer for everybody inside whose
// token is over, a reader for every such writer.
func TestGuardAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		p := player{g: newGuard(t, memory.Config{}), random: rand.New(rand.NewPCG(seed, 0)), gone: gone(t)}
		for step := range 60 {
			if err := p.step(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

type player struct {
	g      *memory.Guard
	random *rand.Rand
	gone   context.Context
	model  guardtest.Model
	inside []visitor
}

type visitor struct {
	token guard.Token
	entry guard.Entry
}

func (p *player) step() error {
	switch n := len(p.inside); {
	case n > 0 && p.random.IntN(2) == 0:
		i := p.random.IntN(n)
		p.inside[i].entry.Exit()
		p.inside = append(p.inside[:i], p.inside[i+1:]...)
		return nil
	case p.random.IntN(20) == 0:
		issuer := [...]string{"i", "j", "k", ""}[p.random.IntN(4)]
		adopted := p.model.Adopt(issuer)
		waits := adopted && p.waitsFor(guard.Exclusive) > 0
		err := p.g.Adopt(p.gone, "orders", issuer)
		if adopted && !waits && err != nil || waits != errors.Is(err, context.Canceled) || !adopted && err == nil {
			return fmt.Errorf("adopt to %q: %w, model: adopted %v, waits %v", issuer, err, adopted, waits)
		}
		return nil
	}
	token := guard.Token{
		Resource: "orders", Number: int64(1 + p.random.IntN(12)),
		Mode:   [...]guard.Mode{guard.Exclusive, guard.Shared}[p.random.IntN(2)],
		Holder: [...]string{"a", "b"}[p.random.IntN(2)], Issuer: [...]string{"i", "i", "j"}[p.random.IntN(3)],
	}
	reason := p.model.Claim(token)
	entry, err := p.g.Enter(p.gone, token)
	if mark := p.g.Mark("orders"); mark != p.model.Mark() {
		return fmt.Errorf("enter %v: mark is %+v, want %+v", token, mark, p.model.Mark())
	}
	if reason != nil {
		if !errors.Is(err, reason) {
			return fmt.Errorf("enter %v: %w, want %w", token, err, reason)
		}
		return nil
	}
	if n := p.waitsFor(token.Mode); n > 0 {
		if want := fmt.Sprintf(": %d of older tokens still inside", n); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("enter %v: %w, want %q", token, err, want)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("enter %v: %w, want that it waits for nobody", token, err)
	}
	p.inside = append(p.inside, visitor{token, entry})
	return nil
}

func (p *player) waitsFor(mode guard.Mode) (n int) {
	for _, v := range p.inside {
		if p.model.Check(v.token) != nil && (mode == guard.Exclusive || v.token.Mode == guard.Exclusive) {
			n++
		}
	}
	return n
}

func TestManyResources(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memory.Config{})
	const resources = 2000
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range resources {
				entry, err := g.Enter(t.Context(), writer(fmt.Sprintf("orders/%d", i), int64(i+1)))
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				entry.Exit()
			}
		})
	}
	all.Wait()
	for i := range resources {
		if m := g.Mark(fmt.Sprintf("orders/%d", i)); m.Writer != int64(i+1) {
			t.Fatalf("mark of resource %d is %+v", i, m)
		}
	}
}
