package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
)

const (
	resource = "chaos"
	writers  = 8
	term     = 40 * time.Millisecond // how long a token lasts
)

// grant is a token whose claim has returned.
type grant struct {
	number int64
	text   string
	seq    uint32
	epoch  int64
}

// proof is one way to check a token at the end of a transaction, or before.
type proof struct {
	name  string
	table string
	run   func(ctx context.Context, conn *pgx.Conn, g grant) error
}

var (
	byTicket = proof{"ticket", "written", func(ctx context.Context, conn *pgx.Conn, g grant) error {
		_, err := conn.Exec(ctx, `SELECT CASE WHEN pg_catalog.pg_sequence_last_value($1::oid::regclass) = $2 THEN NULL ELSE fence.check($3) END`, g.seq, g.epoch, g.text)
		return err
	}}
	byToken = proof{"token", "written", func(ctx context.Context, conn *pgx.Conn, g grant) error {
		_, err := conn.Exec(ctx, "select fence.check($1)", g.text)
		return err
	}}
	bySetting = proof{"setting", "written", func(ctx context.Context, conn *pgx.Conn, g grant) error {
		_, err := conn.Exec(ctx, "select set_config('fence.token', $1, true), fence.check()", g.text)
		return err
	}}
	// The write itself is the check.
	byTrigger = proof{"trigger", "guarded", func(ctx context.Context, conn *pgx.Conn, g grant) error {
		_, err := conn.Exec(ctx, "select set_config('fence.token', $1, true)", g.text)
		return err
	}}
	byLooking = proof{"looking", "written", func(ctx context.Context, conn *pgx.Conn, g grant) error {
		var newest int64
		if err := conn.QueryRow(ctx, "select writer from fence.marks where resource = $1", resource).Scan(&newest); err != nil {
			return err
		}
		if newest != g.number {
			return &pgconn.PgError{Code: "TK001"}
		}
		return nil
	}}
)

// battle is writers against one who claims.
type battle struct {
	url    string // of a role that may be evicted
	checks []proof

	mu       sync.Mutex
	granted  grant
	claiming int64          // the highest number that anybody has begun to claim
	seen     map[int64]int  // rows of older numbers when the claim of this one had returned
	outcomes map[string]int // how often what happened
	wrong    []string       // what must not happen
}

func (b *battle) count(outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes[outcome]++
}

func (b *battle) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

func (b *battle) current() grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.granted
}

// enough reports whether so much has happened that it tells something.
func (b *battle) enough() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outcomes["claimed"] >= 10 && b.outcomes["committed"] >= 50 && b.outcomes["TK001"] >= 10
}

func (b *battle) summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprint(b.outcomes)
}

// fight lets writers and claimer loose for d.
func (b *battle) fight(t *testing.T, d time.Duration) {
	t.Helper()
	if b.seen == nil {
		b.seen = map[int64]int{}
	}
	// Not with a deadline: a dialer that has one may fail by it just before ctx does.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(d, cancel).Stop()
	if err := b.supersede(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range writers {
		all.Go(func() { b.write(ctx) })
	}
	all.Go(func() {
		for ctx.Err() == nil {
			if err := b.supersede(ctx); err != nil && ctx.Err() == nil {
				b.fail("claim: %v", err)
			}
			pause(ctx, term)
		}
	})
	all.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// supersede grants the next number and claims it, on a connection of its own.
func (b *battle) supersede(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	b.mu.Lock()
	b.claiming++
	next := grant{number: b.claiming}
	b.mu.Unlock()
	next.text = guard.Token{Resource: resource, Number: next.number, Mode: guard.Exclusive, Holder: fmt.Sprintf("h%d", next.number), Issuer: "i"}.String()

	const claim = "select seq, epoch from fence.claim($1, $2, $3)"
	if rand.IntN(4) == 0 { // one that comes to nothing first
		if err := b.claimInVain(ctx, conn, next.text); err != nil {
			return err
		}
	}
	wait, evict := 10*time.Second, rand.IntN(4) == 0
	if evict {
		wait = time.Duration(rand.IntN(10)) * time.Millisecond
	}
	if err := conn.QueryRow(ctx, claim, next.text, wait, evict).Scan(&next.seq, &next.epoch); err != nil {
		return err
	}
	var older int
	if err := conn.QueryRow(ctx, "select (select count(*) from written where number < $1) + (select count(*) from guarded where number < $1)", next.number).Scan(&older); err != nil {
		return err
	}
	b.mu.Lock()
	b.granted, b.seen[next.number] = next, older
	b.mu.Unlock()
	b.count("claimed")
	return nil
}

func (b *battle) claimInVain(ctx context.Context, conn *pgx.Conn, token string) error {
	for _, sql := range []string{"begin", "select fence.claim('" + token + "')", "rollback"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	b.count("claim rolled back")
	return nil
}

// write writes until ctx ends, on one connection as long as nobody evicts it.
func (b *battle) write(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, b.url)
		if err != nil {
			if ctx.Err() == nil {
				b.fail("connect: %v", err)
			}
			return
		}
		for ctx.Err() == nil && !conn.IsClosed() {
			b.transaction(ctx, conn)
		}
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

// transaction writes one row under the newest token, or under what was the
// newest a moment ago.
func (b *battle) transaction(ctx context.Context, conn *pgx.Conn) {
	g := b.current()
	if rand.IntN(2) == 0 {
		pause(ctx, rand.N(2*term))
	}
	how := b.checks[rand.IntN(len(b.checks))]
	err := b.attempt(ctx, conn, g, how)
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		b.count("committed")
	case ctx.Err() != nil:
	case errors.As(err, &pgErr) && pgErr.Code == "TK001":
		b.count("TK001")
		b.mu.Lock()
		newest := b.claiming == g.number
		b.mu.Unlock()
		if newest {
			b.fail("token %d is the newest and was refused (I3): %v", g.number, err)
		}
	case errors.As(err, &pgErr) && pgErr.Code == "57P01" || conn.IsClosed():
		b.count("evicted")
	default:
		b.fail("write by %s: %v", how.name, err)
	}
	if !conn.IsClosed() {
		_, _ = conn.Exec(ctx, "rollback")
	}
}

// attempt is one transaction: steps in a random order, with random pauses.
func (b *battle) attempt(ctx context.Context, conn *pgx.Conn, g grant, how proof) error {
	write := func() error {
		_, err := conn.Exec(ctx, "insert into "+how.table+" (number) values ($1)", g.number)
		return err
	}
	verify := func() error { return how.run(ctx, conn, g) }
	run := func(sql string) func() error {
		return func() error { _, err := conn.Exec(ctx, sql); return err }
	}
	steps := []func() error{verify, write}
	if how.table == "written" && rand.IntN(2) == 0 {
		slices.Reverse(steps)
	}
	if rand.IntN(3) == 0 {
		steps = slices.Concat([]func() error{run("savepoint s")}, steps, []func() error{run("rollback to s")}, steps)
	}
	if rand.IntN(2) == 0 { // a snapshot of long ago
		steps = append([]func() error{run("select from still"), func() error { pause(ctx, rand.N(term)); return nil }}, steps...)
	}
	level := []string{"read committed", "repeatable read", "serializable"}[rand.IntN(3)]
	if _, err := conn.Exec(ctx, "begin isolation level "+level); err != nil {
		return err
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
		if rand.IntN(3) == 0 {
			pause(ctx, rand.N(term/4))
		}
	}
	tag, err := conn.Exec(ctx, "commit")
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("commit answered %s", tag)
	}
	return err
}

// staleRows counts the rows that became visible after a claim of a higher
// number had returned.
func (b *battle) staleRows(t *testing.T) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	stale := 0
	for number, then := range b.seen {
		var now int
		err := conn.QueryRow(t.Context(), "select (select count(*) from written where number < $1) + (select count(*) from guarded where number < $1)", number).Scan(&now)
		if err != nil {
			t.Fatal(err)
		}
		stale = max(stale, now-then)
	}
	return stale
}
