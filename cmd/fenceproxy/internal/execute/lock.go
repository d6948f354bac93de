package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

// queue is a lock service in which one waits for so long and no longer, and
// whose errors have exit codes. Of its methods Heal and Do need these.
type queue struct {
	locks.Locker

	program *program
	errand  *errand
}

// floorQueue is a queue of a service that takes a floor.
type floorQueue struct {
	queue
	floors locks.FloorLocker
}

var _ locks.FloorLocker = floorQueue{}

type acquire func(ctx context.Context, resource string) (locks.Lease, error)

func (q queue) Acquire(ctx context.Context, resource string) (locks.Lease, error) {
	return q.get(ctx, resource, q.TryAcquire, q.Locker.Acquire)
}

func (q queue) AcquireShared(ctx context.Context, resource string) (locks.Lease, error) {
	return q.get(ctx, resource, q.TryAcquireShared, q.Locker.AcquireShared)
}

func (q floorQueue) AcquireAbove(ctx context.Context, resource string, floor int64) (locks.Lease, error) {
	return q.get(ctx, resource, nil, func(ctx context.Context, resource string) (locks.Lease, error) {
		return q.floors.AcquireAbove(ctx, resource, floor)
	})
}

func (q floorQueue) AcquireSharedAbove(ctx context.Context, resource string, floor int64) (locks.Lease, error) {
	return q.get(ctx, resource, nil, func(ctx context.Context, resource string) (locks.Lease, error) {
		return q.floors.AcquireSharedAbove(ctx, resource, floor)
	})
}

// errWaited is the end of a wait that was long enough.
var errWaited = errors.New("waited long enough")

// get tries first: only if the service says that somebody else is there does
// waiting begin, so that a service that does not answer is told from a lock
// that is held. A service that takes the lock's time has its own limit.
func (q queue) get(ctx context.Context, resource string, try, wait acquire) (locks.Lease, error) {
	began := time.Now()
	for {
		if try != nil {
			if lease, err := try(ctx, resource); !errors.Is(err, locks.ErrHeld) {
				return lease, q.explain(ctx, err)
			}
		}
		lease, err := q.line(ctx, resource, began, wait)
		if try == nil || !errors.Is(err, locks.ErrLost) || ctx.Err() != nil {
			return lease, q.explain(ctx, err)
		}
		// The place in the queue is lost: the service is asked if it is there.
	}
}

// line waits in the queue.
func (q queue) line(ctx context.Context, resource string, began time.Time, wait acquire) (locks.Lease, error) {
	stop := q.showWaiting(began)
	defer stop()
	if q.errand.wait < 0 {
		return wait(ctx, resource)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(q.errand.wait), errWaited)
	defer cancel()
	return wait(ctx, resource)
}

// explain gives an error its exit code.
func (q queue) explain(ctx context.Context, err error) error {
	var bySignal cli.SignalError
	switch e := q.errand; {
	case err == nil:
		return nil
	case errors.As(context.Cause(ctx), &bySignal):
		return bySignal
	case errors.Is(err, errWaited):
		return q.held()
	case lockurl.Denied(err):
		return cli.Fail(cli.ExitDenied, "the lock service at %s refuses: %w; check user and password in the URL", e.target, err)
	case errors.Is(err, locks.ErrLost):
		return cli.Fail(cli.ExitLost, "lost the place in the queue for %q at %s: %w", e.resource, e.target, err)
	default:
		return cli.Fail(cli.ExitUnreachable, "cannot lock %q at %s: %w; check the URL, and that the server runs", e.resource, e.target, err)
	}
}

// held is the end of a wait for a lock that somebody else has all the time.
func (q queue) held() error {
	waited := ""
	if q.errand.wait > 0 {
		waited = fmt.Sprintf(", and was not to be had within %v", q.errand.wait)
	}
	return cli.Fail(cli.ExitHeld, "the lock of %[1]q at %[2]s is held by somebody else%[3]s; fenceproxy lock status '%[1]s' shows by whom",
		q.errand.resource, q.errand.target, waited)
}

// showWaiting tells somebody at a terminal, and nobody else, what is waited
// for.
func (q queue) showWaiting(began time.Time) (stop func()) {
	out, ok := q.program.Err.(*os.File)
	if !ok || !cli.IsTerminal(out) {
		return func() {}
	}
	const clearLine = "\r\x1b[K"
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			fmt.Fprintf(out, clearLine+"fenceproxy: waiting for the lock of %q at %s, %v", q.errand.resource, q.errand.target, time.Since(began).Round(time.Second))
			select {
			case <-tick.C:
			case <-done:
				fmt.Fprint(out, clearLine)
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
