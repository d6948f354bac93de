package testenv

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// RequireEnv is the environment variable that turns a missing server from a
// skipped test into a failed one, if it is "1".
const RequireEnv = "FENCE_TEST_REQUIRE"

// Run runs the tests of a package, stops the servers that they shared, and
// then looks for goroutines that they left behind. Use it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }
func Run(m *testing.M, opts ...goleak.Option) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	if flag.NArg() > 0 {
		// A program under test that starts itself again has started this test
		// binary, which would run the tests that start it, and so on for ever.
		fmt.Fprintf(os.Stderr, "testenv: this is a test binary, it has no command %q\n", flag.Args())
		return 2
	}
	folder.Sweep()
	code := m.Run()
	stopShared()
	if code != 0 {
		return code
	}
	if err := goleak.Find(opts...); err != nil {
		fmt.Fprintf(os.Stderr, "testenv: goroutines left behind: %v\n", err)
		return 1
	}
	return 0
}

// shared holds what the tests of this process have in common. It is the one
// place with package state, since a test knows only its testing.TB.
var shared struct {
	mu     sync.Mutex
	starts map[string]func() (any, error)
	stops  []func()
}

// share returns the shared server under key, starting it at the first call. A
// start that failed is not tried again.
func share[T any](key string, start func() (T, func(), error)) (T, error) {
	shared.mu.Lock()
	once, ok := shared.starts[key]
	if !ok {
		if shared.starts == nil {
			shared.starts = map[string]func() (any, error){}
		}
		once = sync.OnceValues(func() (any, error) {
			server, stop, err := start()
			if err == nil {
				shared.mu.Lock()
				shared.stops = append(shared.stops, stop)
				shared.mu.Unlock()
			}
			return server, err
		})
		shared.starts[key] = once
	}
	shared.mu.Unlock()
	server, err := once()
	if err != nil {
		var none T
		return none, err
	}
	return server.(T), nil
}

func stopShared() {
	shared.mu.Lock()
	stops := shared.stops
	shared.stops, shared.starts = nil, nil
	shared.mu.Unlock()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
}

var sayMissing sync.Map

// need ends the test if err is not nil: skipped, aloud, if a server is merely
// missing and nothing says that it must be there.
func need(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case onlyDocker() && errors.Is(err, errNotContained):
		tb.Skipf("testenv: %v", err)
	case errors.Is(err, localserver.ErrMissing) && os.Getenv(RequireEnv) != "1":
		if _, said := sayMissing.LoadOrStore(err.Error(), true); !said {
			fmt.Fprintf(os.Stderr, "testenv: SKIPPING tests: %v (make servers)\n", err)
		}
		tb.Skipf("testenv: %v (make servers)", err)
	default:
		tb.Fatalf("testenv: %v", err)
	}
}
