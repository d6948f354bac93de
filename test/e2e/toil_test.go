package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// toiler is a worker that makes deposit after deposit, each under a lock of its
// own and with an amount of its own, and says of each what became of it:
//
//	committed N, refused N, unknown N    a deposit of N
//	lost                                 the lease, or the place in the queue
//	wrong …                              what must not happen
type toiler struct {
	out    io.Writer
	locker locks.Locker
	store  *pgstore.Store
	ttl    time.Duration
}

// toil works until ctx ends.
func (w *toiler) toil(ctx context.Context, resource string) {
	for ctx.Err() == nil {
		acquire, work := w.locker.Acquire, w.deposit
		switch rand.IntN(4) {
		case 0:
			acquire, work = w.locker.AcquireShared, w.look
		case 1:
			acquire = w.locker.TryAcquire
		}
		within, cancel := context.WithTimeout(ctx, rand.N(w.ttl))
		lease, err := acquire(within, resource)
		gaveUp := within.Err() != nil
		cancel()
		switch {
		case err == nil:
			rest := context.WithoutCancel(ctx) // what was begun is ended
			work(rest, lease)
			if err := lease.Release(rest); errors.Is(err, locks.ErrLost) {
				w.say("lost")
			}
		case errors.Is(err, locks.ErrLost):
			w.say("lost")
		case !errors.Is(err, locks.ErrHeld) && !gaveUp:
			w.say("failed acquire: %v", err)
		}
	}
}

func (w *toiler) say(format string, args ...any) { fmt.Fprintf(w.out, format+"\n", args...) }

func (w *toiler) deposit(ctx context.Context, lease locks.Lease) {
	token, amount := lease.Token(), rand.Int64N(1<<40)
	if !w.judge(lease, w.store.Claim(ctx, token)) {
		return
	}
	err := w.store.InTx(ctx, token, func(ctx context.Context, tx pgx.Tx) error {
		return deposit(ctx, tx, token.Number, amount, func() error {
			longest := 5 * time.Millisecond
			if rand.IntN(8) == 0 { // it may well be stopped here
				longest = 400 * time.Millisecond
			}
			timer := time.NewTimer(rand.N(longest))
			<-timer.C
			return nil
		})
	})
	switch guard.OutcomeOf(err) {
	case guard.Applied:
		w.say("committed %d", amount)
	case guard.Unknown:
		w.say("unknown %d", amount)
	default:
		w.say("refused %d", amount)
	}
	w.judge(lease, err)
}

func (w *toiler) look(ctx context.Context, lease locks.Lease) {
	if w.judge(lease, w.store.Claim(ctx, lease.Token())) {
		_, err := w.store.Exec(ctx, lease.Token(), "select amount from balance")
		w.judge(lease, err)
	}
}

// judge reports whether the holder of lease may go on. To be refused while one
// holds the lock must not happen (I3).
func (w *toiler) judge(lease locks.Lease, err error) bool {
	held := lease.Err() == nil && time.Now().Before(lease.Deadline())
	var blocked *pgstore.BlockedError
	switch {
	case err == nil:
	case errors.As(err, &blocked):
		w.say("blocked")
	case !errors.Is(err, guard.ErrStale):
		w.say("wrong: %v", err)
	case held:
		w.say("wrong: holds %v and was refused: %v", lease.Token(), err)
	}
	return err == nil
}
