package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// maxLine bounds a line of the protocol, in bytes.
const maxLine = 64 << 10

// Work is one worker of the story, in a process of its own: it reads its
// assignment from in, adds to the ledger under the lock, and reports to out.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	if !lines.Scan() {
		return errors.Join(errors.New("read assignment: nothing there"), lines.Err())
	}
	w := worker{out: out, lines: lines}
	if err := json.Unmarshal(lines.Bytes(), &w.job); err != nil {
		return fmt.Errorf("read assignment: %w", err)
	}
	w.ledger = ledger{w.job.Schema}
	err := w.connect(ctx)
	if err == nil {
		err = w.work(ctx)
	}
	err = errors.Join(err, w.close())
	if err != nil {
		return errors.Join(err, w.report(report{Step: stepFailed, Text: err.Error()}))
	}
	return nil
}

type worker struct {
	job    assignment
	ledger ledger
	out    io.Writer
	lines  *bufio.Scanner

	pool   *pgxpool.Pool
	store  *pgstore.Store
	client *clientv3.Client
	locker *etcdlock.Locker
}

// work is the story of one worker: as a program that uses a lock would be
// written, with the store or without.
func (w *worker) work(ctx context.Context) error {
	deposits, number := w.job.Deposits, int64(0)
	for len(deposits) > 0 {
		if err := w.report(report{Step: stepWaiting}); err != nil {
			return err
		}
		lease, err := w.locker.Acquire(ctx, w.job.Resource)
		if err != nil {
			return err
		}
		number = lease.Token().Number
		deposits, err = w.hold(ctx, lease, deposits)
		_ = lease.Release(context.WithoutCancel(ctx)) // of a lease that is lost: nothing left to release
		if err != nil {
			return err
		}
	}
	return w.report(report{Step: stepReleased, Number: number})
}

// hold makes deposits under a lease and returns those that are left to make
// because the lease is lost.
func (w *worker) hold(ctx context.Context, lease locks.Lease, deposits []int64) ([]int64, error) {
	token := lease.Token()
	err := w.report(report{Step: stepAcquired, Token: token.String(), Number: token.Number, Lease: time.Until(lease.Deadline())})
	if err != nil {
		return nil, err
	}
	if w.job.Fenced {
		if err := w.store.Claim(ctx, token); err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		if err := w.report(report{Step: stepClaimed, Number: token.Number}); err != nil {
			return nil, err
		}
	}
	for len(deposits) > 0 {
		err := w.deposit(ctx, lease, deposits[0])
		if errors.Is(err, guard.ErrStale) {
			return deposits, w.report(report{Step: stepRefused, Number: token.Number, Amount: deposits[0], Text: sqlState(err) + ": " + err.Error()})
		}
		if err != nil {
			return nil, err
		}
		deposits = deposits[1:]
	}
	return nil, nil
}

func (w *worker) deposit(ctx context.Context, lease locks.Lease, amount int64) error {
	token := lease.Token()
	e := entry{round: w.job.Round, attempt: rand.Text(), worker: w.job.Worker, number: token.Number, amount: amount}
	if err := w.ledger.attempt(ctx, w.pool, e); err != nil {
		return err
	}
	done := report{Step: stepCommitted, Number: token.Number, Amount: amount}
	transact := w.plainly
	if w.job.Fenced {
		transact = w.store.InTx
	}
	err := transact(ctx, token, func(ctx context.Context, tx pgx.Tx) (err error) {
		if done.Read, err = w.ledger.read(ctx, tx, e.round); err != nil {
			return err
		}
		if err := w.pause(lease, done); err != nil {
			return err
		}
		done.Wrote = done.Read + amount
		return w.ledger.write(ctx, tx, e, done.Wrote)
	})
	told := "committed"
	if errors.Is(err, guard.ErrStale) {
		told = sqlState(err)
	} else if err != nil {
		return err
	}
	if noted := w.ledger.told(ctx, w.pool, e, told); noted != nil || err != nil {
		return errors.Join(err, noted)
	}
	return w.report(done)
}

// sqlState is what the database itself said, "" if it said nothing.
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// plainly is InTx of somebody who has a lock and trusts it.
func (w *worker) plainly(ctx context.Context, _ guard.Token, f func(context.Context, pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
}

// pause is where the story stops the first worker: it has looked at its lease,
// which held, and is about to write.
func (w *worker) pause(lease locks.Lease, r report) error {
	if !w.job.Pause {
		return nil
	}
	w.job.Pause = false
	if err := lease.Err(); err != nil {
		return fmt.Errorf("lost the lock before the story began: %w", err)
	}
	r.Step, r.Lease = stepCritical, time.Until(lease.Deadline())
	if err := w.report(r); err != nil {
		return err
	}
	if !w.lines.Scan() {
		return errors.Join(errors.New("wait in the critical section: nobody there any more"), w.lines.Err())
	}
	return w.report(report{Step: stepLate, Number: r.Number})
}

func (w *worker) report(r report) error { return sendLine(w.out, r) }
