package statement

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// TestLongStatements: what a statement is takes a time in proportion to its length,
// whatever is in it. In proportion to its square, it would be a minute
// or so for each.
func TestLongStatements(t *testing.T) {
	t.Parallel()
	const size, limit = 8 << 20, 12 * time.Second // of CPU: the machine may be busy
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, part := range []string{
		"default_transaction_read_only ", "T", "''", "/*", "set_config ", "set_config('", ";", "execute ",
	} {
		for _, before := range []string{"SET x = ", "SELECT '", "CREATE "} {
			text := before + strings.Repeat(part, size/len(part))
			start := cpuTime(t)
			for s := range sqltext.Statements(text, sqltext.Dialect{}) {
				Of(&s)
			}
			if took := cpuTime(t) - start; took > limit {
				t.Errorf("%q and many %q take %v", before, part, took)
			}
		}
	}
}

// cpuTime is what the thread has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestSearch: each place is found, in any case, also such that overlap.
func TestSearch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"": nil, "ab": nil, "aba": {0}, "ABA": {0}, "abABAaBa": {0, 2, 5}, "xaba": {1}, "abab": {0}, "bAbabA": {1, 3}, "AAbA": {1},
	} {
		s := search(text, "aba")
		for _, at := range want {
			if got := s.next(); got != at {
				t.Errorf("%q: found at %d, want %d", text, got, at)
			}
		}
		if got := s.next(); got >= 0 {
			t.Errorf("%q: found at %d, too", text, got)
		}
	}
}
