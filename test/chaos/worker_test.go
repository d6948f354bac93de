package chaos_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// patience is how long anything of a worker's may take before it gives up and
// hangs up.
const patience = 5 * time.Second

// work takes turns until ctx ends.
func (b *siege) work(ctx context.Context) {
	for ctx.Err() == nil {
		number, err := b.turn(ctx)
		if err != nil {
			return
		}
		for tries := 1 + rand.IntN(3); tries > 0 && ctx.Err() == nil; tries-- {
			b.takeTurn(ctx, number) // perhaps over already, and tried again
		}
	}
}

// takeTurn connects through one of the gates with the token of a turn, and
// writes until it is refused or has had enough.
func (b *siege) takeTurn(ctx context.Context, number int64) {
	url, err := b.via(b.gates[rand.IntN(len(b.gates))], number)
	if err != nil {
		b.fail("%v", err)
		return
	}
	conn, err := b.connect(ctx, url)
	if err != nil {
		b.expect("connect", number, err)
		return
	}
	defer hangUp(ctx, conn)
	if err := b.claim(ctx, conn); err != nil {
		b.expect("claim", number, err)
		return
	}
	b.claimed(number)
	for refused := 0; ctx.Err() == nil && !conn.IsClosed() && refused < 2 && rand.IntN(30) > 0; {
		if rand.IntN(8) == 0 {
			pause(ctx, rand.N(2*shift)) // past its turn, and goes on
		}
		if err := b.attempt(ctx, conn, number); err != nil {
			refused++
			b.expect("write", number, err)
		}
	}
}

// bounded is a context for one step. It does not end with the siege: what is
// under way comes to its own end, so that something is known of it.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

func (b *siege) connect(ctx context.Context, url string) (*pgx.Conn, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return pgx.Connect(ctx, url)
}

func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_ = conn.Close(ctx)
}

// claim runs the first statement of a session, before which its token is claimed.
func (b *siege) claim(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := conn.Exec(ctx, "select 1")
	return err
}

// attempt is one write, and what is left of it is rolled back.
func (b *siege) attempt(ctx context.Context, conn *pgx.Conn, number int64) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	id := b.nextID()
	what := b.write(ctx, conn, number, id)
	b.settle(id, what)
	if !conn.IsClosed() {
		_, _ = conn.Exec(ctx, "rollback")
	}
	return what.err
}

// expect counts an error, and sees that it is one of those that there may be.
func (b *siege) expect(doing string, number int64, err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		b.count(doing + ": connection lost")
		return
	}
	b.count(doing + ": " + pg.Code)
	switch pg.Code {
	case "TK001":
		if b.newest(number) {
			b.fail("%s: token %d is the newest and was refused (I3): %v", doing, number, err)
		}
	case "40001", "40P01", "57014", "57P01", "57P02", "57P03", "08001", "08006", "TK004":
	default:
		b.fail("%s: %v, %s, %s", doing, err, pg.Detail, pg.Hint)
	}
}

// fateOf is what an error says of a write, of which the last message that could
// make it last was sent or not. pgx's own SafeToRetry is wrong of a connection
// that closes while a reply is being read.
func fateOf(err error, sent bool) fate {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return acknowledged
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR", !sent:
		return notApplied
	}
	return unknown
}

// write writes a row in one of many ways.
func (b *siege) write(ctx context.Context, conn *pgx.Conn, number, id int64) told {
	const insert = "insert into written values ($1, $2)"
	text := fmt.Sprintf("insert into written values (%d, %d)", number, id)
	var (
		way string
		err error
	)
	switch rand.IntN(12) {
	case 0, 1:
		way = "Query"
		_, err = conn.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
	case 2, 3:
		way = "Execute"
		_, err = conn.Exec(ctx, insert, number, id)
	case 4:
		way = "COPY"
		_, err = conn.CopyFrom(ctx, pgx.Identifier{"written"}, []string{"number", "id"}, pgx.CopyFromRows([][]any{{number, id}, {number, id}}))
	case 5:
		way = "batch"
		batch := &pgx.Batch{}
		batch.Queue(insert, number, id)
		batch.Queue("select 1")
		batch.Queue(insert, number, id)
		err = conn.SendBatch(ctx, batch).Close()
	case 6:
		return told{notApplied, "half a Query", b.tear(conn, text)}
	case 7:
		way = "a cancelled Execute"
		err = b.cancelled(ctx, conn, fmt.Sprintf("insert into written select %d, %d from pg_sleep(0.02)", number, id))
	default:
		sent, err := b.block(ctx, conn, text, func() error {
			_, err := conn.Exec(ctx, insert, number, id)
			return err
		})
		return told{fateOf(err, sent), "a block", err}
	}
	return told{fateOf(err, true), way, err}
}

var errTorn = errors.New("left in the middle of a message")

// tear hangs up in the middle of a message.
func (b *siege) tear(conn *pgx.Conn, text string) error {
	message := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(text)+5))
	message = append(append(message, text...), 0)
	raw := conn.PgConn().Conn()
	_, _ = raw.Write(message[:1+rand.IntN(len(message)-1)])
	raw.Close()
	b.count("torn")
	return errTorn
}

// cancelled runs a statement that is cancelled while it runs, before, or after.
func (b *siege) cancelled(ctx context.Context, conn *pgx.Conn, sql string) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause(ctx, rand.N(40*time.Millisecond))
		if conn.PgConn().CancelRequest(ctx) == nil {
			b.count("cancel sent")
		}
	}()
	_, err := conn.Exec(ctx, sql)
	<-done
	return err
}

// block writes in a block, and reports whether its COMMIT was sent.
func (b *siege) block(ctx context.Context, conn *pgx.Conn, text string, byParameters func() error) (sent bool, err error) {
	run := func(sql string) func() error {
		mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec}[rand.IntN(3)]
		return func() error { _, err := conn.Exec(ctx, sql, mode); return err }
	}
	idle := func() error { pause(ctx, rand.N(shift)); return nil }
	steps := []func() error{[]func() error{run(text), byParameters}[rand.IntN(2)]}
	if rand.IntN(3) == 0 {
		steps = slices.Concat([]func() error{run("savepoint s")}, steps, []func() error{run("rollback to s")}, steps)
	}
	if rand.IntN(3) == 0 { // a snapshot of long ago
		steps = append([]func() error{run("select from still"), idle}, steps...)
	}
	if rand.IntN(3) == 0 {
		steps = append(steps, idle)
	}
	level := []string{"read committed", "repeatable read", "serializable"}[rand.IntN(3)]
	steps = append([]func() error{run("begin isolation level " + level)}, steps...)
	for _, step := range steps {
		if err := step(); err != nil {
			return false, err
		}
	}
	tag, err := conn.Exec(ctx, "commit", pgx.QueryExecModeSimpleProtocol)
	if err == nil && tag.String() != "COMMIT" {
		return true, &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: tag.String(), Message: "answer to COMMIT"}
	}
	return true, err
}
