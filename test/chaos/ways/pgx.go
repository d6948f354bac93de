package ways

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// pgxWay goes in by a bare pgx that carries its token in fence.token: through a
// proxy, which does the rest, or directly to a table that protects itself.
type pgxWay struct {
	urls []string
	// claim is what claims the token: the first statement of a session with a
	// proxy, and a call of fence.claim without.
	claim func(token guard.Token) string
	// set: the token is set by a statement, since PgBouncer keeps options.
	set  bool
	dice *rand.Rand
}

// anyStatement is one: the proxy claims before it.
func anyStatement(guard.Token) string { return "SELECT 1" }

func openProxy(a Access, dice *rand.Rand) Way {
	return &pgxWay{urls: a.Proxies, claim: anyStatement, dice: dice}
}

func openPooled(a Access, dice *rand.Rand) Way {
	return &pgxWay{urls: a.Pooled, claim: anyStatement, set: true, dice: dice}
}

func openTriggers(a Access, dice *rand.Rand) Way {
	return &pgxWay{urls: []string{a.Postgres}, claim: claimStatement, dice: dice}
}

// claimStatement claims by hand, and evicts.
func claimStatement(token guard.Token) string {
	return fmt.Sprintf("SELECT fence.claim('%s', '%d ms', true)", token, ClaimWait.Milliseconds())
}

func (w *pgxWay) Close() {}

func (w *pgxWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	conn, err := w.connect(ctx, token)
	if err != nil {
		return nil, err
	}
	return &pgxTenure{conn, r, w.dice}, nil
}

// connect opens a session with tokens, and claims them.
func (w *pgxWay) connect(ctx context.Context, tokens ...guard.Token) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(w.urls[w.dice.IntN(len(w.urls))])
	if err != nil {
		return nil, err
	}
	if !w.set {
		if config.RuntimeParams["options"], err = carrier.SetOptions("", tokens...); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, answered(err, false)
	}
	if w.set {
		set, err := carrier.SetStatement(tokens...)
		if err == nil {
			_, err = conn.Exec(ctx, set)
		}
		if err != nil {
			hangUp(conn)
			return nil, answered(err, false)
		}
	}
	for _, token := range tokens {
		if _, err := conn.Exec(ctx, w.claim(token)); err != nil {
			hangUp(conn)
			return nil, answered(err, true)
		}
	}
	return conn, nil
}

// hangUp says nothing, and waits for nothing.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ctx)
}

type pgxTenure struct {
	conn *pgx.Conn
	at   Register
	dice *rand.Rand
}

func (t *pgxTenure) Leave() { hangUp(t.conn) }

// modes are pgx's ways to run a statement.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

func (t *pgxTenure) mode() pgx.QueryExecMode { return modes[t.dice.IntN(len(modes))] }

func (t *pgxTenure) Read(ctx context.Context) (history.State, error) {
	s, err := t.at.read(ctx, t.conn, t.mode())
	if err != nil {
		return s, answered(err, false)
	}
	return s, nil
}

func (t *pgxTenure) Write(ctx context.Context, e history.Entry, pause func()) (history.State, error) {
	if t.dice.IntN(2) == 0 {
		s, err := t.at.put(ctx, t.conn, e, t.dice, t.mode())
		if err != nil {
			return s, answered(err, true)
		}
		return s, nil
	}
	return block(ctx, t.conn, levels[t.dice.IntN(len(levels))], func() (history.State, error) {
		pause()
		s, err := t.at.put(ctx, t.conn, e, t.dice, t.mode())
		pause()
		return s, err
	})
}

// block runs write between BEGIN and COMMIT.
func block(ctx context.Context, conn *pgx.Conn, level pgx.TxIsoLevel, write func() (history.State, error)) (s history.State, err error) {
	defer func() {
		if err != nil && !conn.IsClosed() {
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
	}()
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+string(level)); err != nil {
		return s, answered(err, false)
	}
	if s, err = write(); err != nil {
		return s, answered(err, false)
	}
	tag, err := conn.Exec(ctx, "COMMIT")
	if err != nil {
		return s, answered(err, true)
	}
	if tag.String() != "COMMIT" {
		return s, guard.WithOutcome(fmt.Errorf("COMMIT was answered %s", tag), guard.NotApplied)
	}
	return s, nil
}
