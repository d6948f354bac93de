package zklock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

func TestParseEntry(t *testing.T) {
	t.Parallel()
	prefix := entryPrefix(guard.Shared, "7QZ", -2)
	if prefix != "fence-s-7QZ-fffffffffffffffe-" {
		t.Fatalf("prefix %q", prefix)
	}
	// As ZooKeeper writes them, with %010d (ZOOKEEPER-4706, kazoo #730).
	for text, want := range map[string]int32{
		"0000000000": 0, "0000000042": 42, "2147483647": math.MaxInt32, "-2147483648": math.MinInt32, "-000000001": -1,
	} {
		e, ok := parseEntry(prefix + text)
		if !ok || e.sequence != want || e.mode != guard.Shared || e.holder != "7QZ" || e.session != math.MaxUint64-1 {
			t.Errorf("%s: %+v, %v", text, e, ok)
		}
	}
	for _, name := range []string{
		"", "fence-", "fence-single", "fence-s-", prefix, prefix + "42", prefix + "0000000042 ", prefix + "x",
		prefix + "+000000042", prefix + "2147483648", prefix + "-2147483649", prefix + "00000000042", prefix + "-0000000001",
		"fence-y-7QZ-fffffffffffffffe-0000000042", "fence-s--fffffffffffffffe-0000000042", "fence-s-7QZ-ffe-0000000042",
		"fence-s-7QZ-FFFFFFFFFFFFFFFE-0000000042", "lock-0000000042", "_c_0123-fence-s-7QZ-fffffffffffffffe-0000000042",
	} {
		if e, ok := parseEntry(name); ok {
			t.Errorf("%q is taken for %+v", name, e)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add("fence-x-7QZ-00000000000000ff-0000000042")
	f.Add("fence-s-7QZ-00000000000000ff--2147483648")
	f.Fuzz(func(t *testing.T, name string) {
		e, ok := parseEntry(name)
		if ok && e.prefix()+fmt.Sprintf("%010d", e.sequence) != name {
			t.Errorf("%q is taken for %+v", name, e)
		}
	})
}

// queueOf makes names of the modes given, from a sequence number on.
func queueOf(modes string, from int32) []entry {
	var queue []entry
	for i, c := range modes {
		name := entryPrefix(guard.Mode(c), fmt.Sprint("H", i), 1) + fmt.Sprintf("%010d", from)
		e, ok := parseEntry(name)
		if !ok {
			panic(name)
		}
		queue = append(queue, e)
		from++
	}
	return queue
}

// TestAhead: a writer waits for the one in front of it, a reader for the last
// writer.
func TestAhead(t *testing.T) {
	t.Parallel()
	const modes = "ssxxssxs"
	waits := []int{-1, -1, 1, 2, 3, 3, 5, 6} // for whom
	only := []bool{2: false, 4: false, 7: false}
	for _, from := range []int32{0, 41, math.MaxInt32 - 8} {
		queue := queueOf(modes, from)
		names := []string{"other", "lock-0000000000"}
		for _, e := range queue {
			names = append(names, e.name)
		}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var numbers []int64
		for i, e := range queue {
			want := ""
			if waits[i] >= 0 {
				want = queue[waits[i]].name
			}
			if got, found := ahead(names, e); got.name != want || got.only != only[i] || !found {
				t.Errorf("from %d: %s waits for %q alone: %v, %v, want %q, %v", from, e.name, got.name, got.only, found, want, only[i])
			}
			numbers = append(numbers, e.number())
		}
		if _, found := ahead(names[:2], queueOf("x", from+100)[0]); found {
			t.Error("found what is not there")
		}
		if !slices.IsSorted(numbers) || slices.Min(numbers) < 1 || queue[len(queue)-1].void() {
			t.Errorf("from %d: numbers %d", from, numbers)
		}
	}
}

// TestVoid: a number that others may have too is no place in a queue.
func TestVoid(t *testing.T) {
	t.Parallel()
	for sequence, want := range map[int32]bool{0: false, math.MaxInt32 - 1: false, math.MaxInt32: true, math.MinInt32: true, -1: true} {
		if got := (entry{sequence: sequence}).void(); got != want {
			t.Errorf("%d: %v, want %v", sequence, got, want)
		}
	}
}
