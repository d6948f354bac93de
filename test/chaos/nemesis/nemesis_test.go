package nemesis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play lets n faults of a catalog of two targets begin, and returns their names and
// what they recorded.
func play(t *testing.T, seed uint64, n int) (names []string, ops []history.Op) {
	t.Helper()
	dir := t.TempDir()
	record, err := history.Create(dir, "nemesis")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	going := map[string]bool{}
	fault := func(name, target string, weight int, longest time.Duration) nemesis.Fault {
		return nemesis.Fault{Name: name, Target: target, Weight: weight, Longest: longest, Begin: func(testing.TB, *rand.Rand) (func(), bool) {
			if going[target] {
				t.Errorf("%s has two faults at a time", target)
			}
			if names = append(names, name); len(names) == n {
				stop()
			}
			if longest == 0 {
				return nil, true
			}
			going[target] = true
			return func() { going[target] = false }, true
		}}
	}
	catalog := []nemesis.Fault{fault("a stopped", "a", 3, time.Millisecond), fault("a cut", "a", 1, 0), fault("b stopped", "b", 1, time.Millisecond)}
	count := nemesis.Run(ctx, t, record, nemesis.Schedule{Seed: seed, Every: 4 * time.Millisecond, AtOnce: 2}, catalog)
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	if count != n {
		t.Errorf("%d faults, want %d", count, n)
	}
	for target, goes := range going {
		if goes {
			t.Errorf("the fault of %s did not end", target)
		}
	}
	if ops, err = history.Load(dir); err != nil {
		t.Fatal(err)
	}
	return names, ops
}

func TestSameSeedSameFaults(t *testing.T) {
	t.Parallel()
	first, _ := play(t, 1, 20)
	again, _ := play(t, 1, 20)
	other, _ := play(t, 2, 20)
	counts := func(names []string) map[string]int {
		all := map[string]int{}
		for _, name := range names {
			all[name]++
		}
		return all
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same seed has other faults: %s", diff)
	}
	if cmp.Equal(first, other) {
		t.Errorf("another seed has the same faults: %v", first)
	}
	if all := counts(first); all["a stopped"] <= all["a cut"] {
		t.Errorf("weights do not count: %v", all)
	}
}

// failing is a test that ends.
type failing struct{ testing.TB }

func (failing) Fatal(...any) { runtime.Goexit() }

// TestServerThatDoesNotComeBack: what ends one fault may end the test; all others
// end all the same.
func TestServerThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	record, err := history.Create(t.TempDir(), "nemesis")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began, ended := 0, map[string]int{}
	var catalog []nemesis.Fault
	for _, target := range []string{"a", "b", "c"} {
		catalog = append(catalog, nemesis.Fault{
			Name: target, Target: target, Weight: 1, Shortest: time.Hour, Longest: time.Hour,
			Begin: func(tb testing.TB, _ *rand.Rand) (func(), bool) {
				if began++; began == 3 {
					stop()
				}
				return func() { ended[target]++; tb.Fatal("it does not come back") }, true
			},
		})
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		nemesis.Run(ctx, failing{t}, record, nemesis.Schedule{Every: time.Millisecond, AtOnce: 3}, catalog)
		t.Error("the test goes on")
	}()
	<-done
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	all := 0
	for target, times := range ended {
		if all += times; times == 0 {
			t.Errorf("the fault of %s did not end", target)
		}
	}
	if all != began {
		t.Errorf("%d ends of %d faults", all, began)
	}
}

func TestFaultsAreRecorded(t *testing.T) {
	t.Parallel()
	names, ops := play(t, 3, 10)
	if len(ops) != len(names) {
		t.Fatalf("%d of %d faults are recorded", len(ops), len(names))
	}
	for i, op := range ops {
		if op.Kind != history.Fault || op.Way != names[i] || !op.Over() {
			t.Errorf("%d: %+v, want %s and its end", i, op, names[i])
		}
	}
	if got := fmt.Sprint(ops[0].Resource); got != "a" && got != "b" {
		t.Errorf("target %s", got)
	}
}
