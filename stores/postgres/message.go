package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	commitTag           = "COMMIT"
	lockNotAvailable    = "55P03"
	noSuchStatement     = "26000"
	readOnlyTransaction = "25006"
	noSuchRelation      = "XX000" // could not open relation with OID: PostgreSQL has no better
	wrongObject         = "42809"
	noPrivilege         = "42501"
)

// What the store sends. Every name is qualified: the caller's search_path is
// not ours to trust.
const (
	// enterSQL sets the token for protected tables, and makes the transaction
	// one that an eviction finds before it has reached its check (I4).
	enterSQL    = `select pg_catalog.set_config('fence.token', $1::pg_catalog.text, true), pg_catalog.pg_advisory_xact_lock_shared($2::pg_catalog.int4, $3::pg_catalog.int4)`
	presenceSQL = `select pg_catalog.pg_advisory_xact_lock_shared($1::pg_catalog.int4, $2::pg_catalog.int4)`
	// trackSQL says which transaction this is, and in which history.
	trackSQL = `select pg_catalog.pg_current_xact_id(), ` + historySQL
	// historySQL is the last checkpoint, which changes with a crash since
	// recovery ends in one, and the timeline, which changes with a promotion.
	historySQL = `(select c.checkpoint_lsn from pg_catalog.pg_control_checkpoint() c), pg_catalog."left"(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8)`
)

// The check is the fence: the built-in locks the sequence to the end of the
// transaction and reads past every snapshot. As long as it finds the ticket's
// epoch there is no row, and nothing more to do. Otherwise, or without a
// ticket, the database decides by the token: it refuses, or returns the ticket
// as a record (seq,epoch). That is fence.ticket and not fence.check, since the
// store itself makes sure that the claim returned before the transaction
// began. A shared token's shortcut is open only to who has written nothing.
const (
	checkToken     = "select fence.ticket("
	checkSeq       = "::pg_catalog.text)::pg_catalog.text where coalesce(pg_catalog.pg_sequence_last_value("
	checkEpoch     = "::pg_catalog.regclass) operator(pg_catalog.<>) "
	checkExclusive = "::pg_catalog.int8, true)"
	checkShared    = "::pg_catalog.int8, true) or pg_catalog.pg_current_xact_id_if_assigned() is not null"

	preparedCheck       = checkToken + "$3" + checkSeq + "$1" + checkEpoch + "$2" + checkExclusive
	preparedCheckShared = checkToken + "$3" + checkSeq + "$1" + checkEpoch + "$2" + checkShared
)

// check is the check as a text.
func check(seq, epoch, token string, shared bool) string {
	mode := checkExclusive
	if shared {
		mode = checkShared
	}
	return checkToken + token + checkSeq + seq + checkEpoch + epoch + mode
}

// exchange sends a message and reads all that it brings. It returns the tag of
// the last statement. row is called with the first row of each statement, nil
// if there is none; it is valid only until row returns.
//
// An error that matches unsentError came before anything was sent. What pgconn
// says itself (SafeToRetry) is of no use here: to a reader of several results,
// a connection that is lost is one that was closed before it was used.
func exchange(ctx context.Context, pg *pgconn.PgConn, send func() *pgconn.MultiResultReader, row func(statement int, row [][]byte) error) (string, error) {
	switch {
	case pg.IsClosed():
		return "", unsentError{pgconn.ErrConnClosed}
	case pg.IsBusy():
		return "", unsentError{errBusy}
	case ctx.Err() != nil:
		return "", unsentError{ctx.Err()}
	}
	all := send()
	if !pg.IsBusy() && !pg.IsClosed() {
		return "", unsentError{all.Close()}
	}
	var tag pgconn.CommandTag
	var failed error
	for i := 0; all.NextResult(); i++ {
		result := all.ResultReader()
		some := result.NextRow()
		if some && row != nil && failed == nil {
			failed = row(i, result.Values())
		}
		var err error
		if tag, err = result.Close(); err != nil {
			break // it is that of all
		}
		if !some && row != nil && failed == nil {
			failed = row(i, nil)
		}
	}
	if err := all.Close(); err != nil {
		return "", lost(ctx, err)
	}
	return tag.String(), failed
}

// simple is exchange by the simple protocol.
func simple(ctx context.Context, pg *pgconn.PgConn, text string, row func(statement int, row [][]byte) error) (string, error) {
	return exchange(ctx, pg, func() *pgconn.MultiResultReader { return pg.Exec(ctx, text) }, row)
}

var (
	errBusy = errors.New("connection is busy: rows were left open")
	errLost = errors.New("connection was lost")
)

// lost puts right what pgconn says of a connection that is lost while several
// results are read: that it was closed, and not why.
func lost(ctx context.Context, err error) error {
	if !errors.Is(err, pgconn.ErrConnClosed) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errLost
}

// unsentError is an error that came before the message was sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// isError reports whether err came from the server with one of the codes.
func isError(err error, codes ...string) bool {
	if err == nil {
		return false
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	return slices.Contains(codes, pgErr.Code)
}

// literal writes a number so that its type does not depend on its size.
func literal[T int32 | uint32 | uint64](n T) string { return fmt.Sprintf("'%d'", n) }
