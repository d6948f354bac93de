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
