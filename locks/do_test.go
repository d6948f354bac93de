package locks_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit)) }

var (
	errFn      = errors.New("what fn returned")
	errRelease = errors.New("service cannot be reached")
	errLost    = fmtLost{}
)

// fmtLost is an error as back-ends make them: their own, that matches ErrLost.
type fmtLost struct{}

func (fmtLost) Error() string        { return "expired" }
func (fmtLost) Is(target error) bool { return target == locks.ErrLost }

// fakeLocker grants one lease, and says how often it was released.
type fakeLocker struct {
	locks.Locker // only what Do and DoShared need is there
	lease        *fakeLease
	err          error
}

func (l *fakeLocker) Acquire(context.Context, string) (locks.Lease, error) {
	if l.err != nil {
		return nil, l.err
	}
	l.lease.mode = guard.Exclusive
	return l.lease, nil
}

func (l *fakeLocker) AcquireShared(context.Context, string) (locks.Lease, error) {
	if l.err != nil {
		return nil, l.err
	}
	l.lease.mode = guard.Shared
	return l.lease, nil
}

type fakeLease struct {
	mode       guard.Mode
	ctx        context.Context
	cancel     context.CancelCauseFunc
	releases   int
	releaseErr error
	releaseCtx error
}

func newFake() *fakeLocker {
	lease := &fakeLease{}
	lease.ctx, lease.cancel = context.WithCancelCause(context.Background())
	return &fakeLocker{lease: lease}
}

func (l *fakeLease) Token() guard.Token    { return guard.Token{Mode: l.mode, Number: 1} }
func (l *fakeLease) Lost() <-chan struct{} { return l.ctx.Done() }
func (l *fakeLease) Err() error            { return context.Cause(l.ctx) }
func (l *fakeLease) Deadline() time.Time   { return time.Now() }
func (l *fakeLease) Release(ctx context.Context) error {
	l.releases++
	l.releaseCtx = ctx.Err()
	l.cancel(locks.ErrReleased)
	return l.releaseErr
}

func TestDo(t *testing.T) {
	t.Parallel()
	refused := &guard.RefusedError{Reason: guard.ErrStale}
	applied := guard.WithOutcome(errFn, guard.NotApplied)
	for _, test := range []struct {
		name       string
		fn         error
		lose       bool
		releaseErr error
		matches    []error
		not        []error
		outcome    guard.Outcome
	}{
		{name: "fn succeeds", outcome: guard.Applied},
		{name: "fn fails", fn: errFn, matches: []error{errFn}, not: []error{locks.ErrLost, locks.ErrReleased}},
		{name: "fn is refused", fn: refused, matches: []error{guard.ErrStale}, outcome: guard.Refused},
		{name: "lost, fn succeeds", lose: true, matches: []error{locks.ErrLost}, outcome: guard.Unknown},
		{name: "lost, fn is refused", lose: true, fn: refused, matches: []error{locks.ErrLost, guard.ErrStale}, outcome: guard.Refused},
		{name: "lost, fn was not applied", lose: true, fn: applied, matches: []error{locks.ErrLost, errFn}, outcome: guard.NotApplied},
		{name: "release fails, fn succeeds", releaseErr: errRelease, outcome: guard.Applied},
		{name: "release fails, fn fails", releaseErr: errRelease, fn: errFn, matches: []error{errFn}, not: []error{errRelease}},
		{name: "release tells of the loss", releaseErr: errLost, matches: []error{locks.ErrLost}},
		{name: "release tells of the loss, fn fails", releaseErr: errLost, fn: errFn, matches: []error{locks.ErrLost, errFn}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newFake()
			l.lease.releaseErr = test.releaseErr
			err := locks.Do(t.Context(), l, "r", func(ctx context.Context, lease locks.Lease) error {
				if lease != locks.Lease(l.lease) || ctx.Err() != nil {
					t.Errorf("fn got %v, %v", lease, ctx.Err())
				}
				if test.lose {
					l.lease.cancel(errLost)
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), locks.ErrLost) {
						t.Errorf("cause of fn's ctx: %v", context.Cause(ctx))
					}
				}
				return test.fn
			})
			for _, want := range test.matches {
				if !errors.Is(err, want) {
					t.Errorf("Do = %v, does not match %v", err, want)
				}
			}
			for _, other := range test.not {
				if errors.Is(err, other) {
					t.Errorf("Do = %v, matches %v", err, other)
				}
			}
			if (err != nil) != (len(test.matches) > 0) {
				t.Errorf("Do = %v", err)
			}
			if got := guard.OutcomeOf(err); got != test.outcome {
				t.Errorf("outcome of %v: %v, want %v", err, got, test.outcome)
			}
			if l.lease.releases != 1 {
				t.Errorf("released %d times", l.lease.releases)
			}
		})
	}
}

func TestDoFailsToAcquire(t *testing.T) {
	t.Parallel()
	l := newFake()
	l.err = locks.ErrClosed
	never := func(context.Context, locks.Lease) error {
		t.Error("fn ran without a lock")
		return nil
	}
	if err := locks.Do(t.Context(), l, "r", never); !errors.Is(err, locks.ErrClosed) {
		t.Errorf("Do = %v", err)
	}
	if err := locks.DoShared(t.Context(), l, "r", never); !errors.Is(err, locks.ErrClosed) {
		t.Errorf("DoShared = %v", err)
	}
}

func TestDoSharedIsShared(t *testing.T) {
	t.Parallel()
	err := locks.DoShared(t.Context(), newFake(), "r", func(_ context.Context, lease locks.Lease) error {
		if lease.Token().Mode != guard.Shared {
			t.Errorf("mode %v", lease.Token().Mode)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDoReleasesWithAnEndedCtx(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	l := newFake()
	err := locks.Do(ctx, l, "r", func(ctx context.Context, _ locks.Lease) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || l.lease.releases != 1 || l.lease.releaseCtx != nil {
		t.Errorf("Do = %v, %d releases with a ctx of %v", err, l.lease.releases, l.lease.releaseCtx)
	}
}

func TestDoReleasesOnPanic(t *testing.T) {
	t.Parallel()
	l := newFake()
	func() {
		defer func() {
			if got, _ := recover().(error); !errors.Is(got, errFn) {
				t.Errorf("panic %v", got)
			}
		}()
		_ = locks.Do(t.Context(), l, "r", func(context.Context, locks.Lease) error { panic(errFn) })
	}()
	if l.lease.releases != 1 {
		t.Errorf("released %d times", l.lease.releases)
	}
}
