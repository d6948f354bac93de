package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

// xact is what a transaction can be asked for by from another connection.
type xact struct {
	id string
	// checkpoint changes with a crash and timeline with a promotion: after
	// either, the id may have been handed out again.
	checkpoint, timeline string
}

const (
	// settleLimit bounds how long the server is asked what became of a
	// transaction, also after the caller's ctx has ended.
	settleLimit = 5 * time.Second
	settlePause = 20 * time.Millisecond
)

var errUnsettled = errors.New("what became of the transaction cannot be told")

// settle asks what became of a transaction whose COMMIT was not answered: nil
// if it was committed, otherwise lost with the outcome that is known now.
func (s *Store) settle(ctx context.Context, x xact, lost error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	for {
		status, now, err := s.xactStatus(ctx, x.id)
		switch {
		case err != nil && ctx.Err() != nil:
			return lost
		case err != nil: // the server may be on its way back
		case now.timeline != x.timeline:
			return guard.WithOutcome(fmt.Errorf("%w: the server was replaced: %w", errUnsettled, lost), guard.Unknown)
		case status == "aborted":
			return guard.WithOutcome(fmt.Errorf("the transaction was rolled back: %w", lost), guard.NotApplied)
		case status == "committed" && now.checkpoint == x.checkpoint:
			if s.replicated(ctx) != nil {
				return lost
			}
			return nil
		case status != "in progress":
			return guard.WithOutcome(fmt.Errorf("%w: there was a checkpoint, perhaps after a crash: %w", errUnsettled, lost), guard.Unknown)
		}
		select {
		case <-ctx.Done():
			return lost
		case <-time.After(settlePause):
		}
	}
}

func (s *Store) xactStatus(ctx context.Context, id string) (status string, now xact, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return "", now, err
	}
	defer conn.Release()
	_, err = simple(ctx, conn.Conn().PgConn(), "select pg_catalog.pg_xact_status('"+id+"'), "+historySQL, func(_ int, row [][]byte) error {
		status, now.checkpoint, now.timeline = string(row[0]), string(row[1]), string(row[2])
		return nil
	})
	return status, now, err
}

// replicatedSQL commits something, if there are synchronous standbys. What the
// session would wait for by itself may be less than what the transaction was to
// wait for.
const replicatedSQL = `select case when pg_catalog.current_setting('synchronous_commit') operator(pg_catalog.<>) 'remote_apply'
	then pg_catalog.set_config('synchronous_commit', 'on', true) end;
	select pg_catalog.pg_logical_emit_message(true, 'fence', '') where pg_catalog.current_setting('synchronous_standby_names') operator(pg_catalog.<>) '';commit`

// replicated returns when the synchronous standbys have what was committed here:
// a COMMIT that is given up while it waits for them is there all the same. No
// timeout may end this wait, too: the server would say COMMIT and a warning.
func (s *Store) replicated(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	pg := conn.Conn().PgConn()
	tag, err := simple(ctx, pg, "begin read write;"+noTimeouts("statement_timeout", "transaction_timeout")+replicatedSQL, nil)
	if err == nil && tag != commitTag {
		err = unexpectedTagError(tag)
	}
	if err != nil {
		(&work{conn: conn.Conn()}).rollback(ctx)
	}
	return err
}
