package memory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

func writer(resource string, number int64) guard.Token {
	return guard.Token{
		Resource: resource, Number: number, Mode: guard.Exclusive,
		Holder: fmt.Sprintf("holder-%d", number), Issuer: "k3v9x0q2",
	}
}

func newGuard(tb testing.TB, config memory.Config) *memory.Guard {
	tb.Helper()
	g, err := memory.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// BenchmarkEnter is the figure: at most 150 ns for Enter and Exit, no
// allocation.
func BenchmarkEnter(b *testing.B) {
	g := newGuard(b, memory.Config{})
	ctx, token := b.Context(), writer("orders", 42)
	b.ReportAllocs()
	for b.Loop() {
		entry, err := g.Enter(ctx, token)
		if err != nil {
			b.Fatal(err)
		}
		entry.Exit()
	}
}

func BenchmarkEnterParallel(b *testing.B) {
	for _, resources := range []int{1, 1000} {
		b.Run(fmt.Sprintf("resources=%d", resources), func(b *testing.B) {
			g := newGuard(b, memory.Config{})
			tokens := make([]guard.Token, resources)
			for i := range tokens {
				tokens[i] = writer(fmt.Sprintf("orders/%d", i), 42)
			}
			var workers atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for i := int(workers.Add(1)) * 37; pb.Next(); i++ {
					entry, err := g.Enter(ctx, tokens[i%len(tokens)])
					if err != nil {
						b.Error(err)
						return
					}
					entry.Exit()
				}
			})
		})
	}
}

// BenchmarkTakeover is a claim by a new writer each time.
func BenchmarkTakeover(b *testing.B) {
	g := newGuard(b, memory.Config{})
	ctx, token := b.Context(), writer("orders", 1)
	b.ReportAllocs()
	for b.Loop() {
		token.Number++
		entry, err := g.Enter(ctx, token)
		if err != nil {
			b.Fatal(err)
		}
		entry.Exit()
	}
}
