package load

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// Table is what the database of a Job has to have: a row for each resource, which
// writers make themselves.
const Table = `CREATE TABLE work (resource text PRIMARY KEY, n bigint NOT NULL)`

const update = `INSERT INTO work VALUES ($1, 1) ON CONFLICT (resource) DO UPDATE SET n = work.n + 1`

type pgStoreWay struct {
	pool  *pgxpool.Pool
	store *pgstore.Store
}

func openPGStore(ctx context.Context, job Job) (way, error) {
	config, err := pgxpool.ParseConfig(job.Postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(job.Hands)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	store, err := pgstore.New(pool, pgstore.Config{Evict: true})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &pgStoreWay{pool, store}, nil
}

func (w *pgStoreWay) close() { w.pool.Close() }

func (w *pgStoreWay) enter(ctx context.Context, token guard.Token) (tenure, error) {
	return &pgStoreTenure{w, token}, w.store.Claim(ctx, token)
}

type pgStoreTenure struct {
	*pgStoreWay
	token guard.Token
}

func (t *pgStoreTenure) leave() {}

func (t *pgStoreTenure) write(ctx context.Context, _ *rand.Rand) error {
	return t.store.InTx(ctx, t.token, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, update, t.token.Resource)
		return err
	})
}

var errLeft = errors.New("left")

// abandon rolls back, or loses the connection before the commit.
func (t *pgStoreTenure) abandon(ctx context.Context, dice *rand.Rand) error {
	cut := dice.IntN(2) == 0
	err := t.store.InTx(ctx, t.token, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, update, t.token.Resource); err != nil {
			return err
		}
		if cut {
			return tx.Conn().PgConn().Conn().Close()
		}
		return errLeft
	})
	if cut || errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// pgProxyWay has a session for each holder, as a program of one shot does.
type pgProxyWay struct{ url string }

func openPGProxy(_ context.Context, job Job) (way, error) { return &pgProxyWay{job.Proxy}, nil }

func (w *pgProxyWay) close() {}

func (w *pgProxyWay) enter(ctx context.Context, token guard.Token) (tenure, error) {
	config, err := pgx.ParseConfig(w.url)
	if err != nil {
		return nil, err
	}
	if config.RuntimeParams["options"], err = carrier.SetOptions("", token); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	t := &pgProxyTenure{conn, token}
	if _, err := conn.Exec(ctx, "SELECT 1"); err != nil {
		t.leave()
		return nil, told(err)
	}
	return t, nil
}

type pgProxyTenure struct {
	conn  *pgx.Conn
	token guard.Token
}

func (t *pgProxyTenure) leave() { _ = t.conn.Close(context.Background()) } // what it says does not matter

func (t *pgProxyTenure) write(ctx context.Context, dice *rand.Rand) error {
	if dice.IntN(2) == 0 {
		_, err := t.conn.Exec(ctx, update, t.token.Resource)
		return told(err)
	}
	return told(pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, update, t.token.Resource)
		return err
	}))
}

// abandon loses the connection in a transaction.
func (t *pgProxyTenure) abandon(ctx context.Context, _ *rand.Rand) error {
	if _, err := t.conn.Exec(ctx, "BEGIN"); err != nil {
		return told(err)
	}
	if _, err := t.conn.Exec(ctx, update, t.token.Resource); err != nil {
		return told(err)
	}
	return t.conn.PgConn().Conn().Close()
}

// told is err as a refusal, if it is one.
func told(err error) error {
	if r, ok := carrier.RefusalBySQLState(sqlState(err)); ok {
		return &guard.RefusedError{Reason: r.Reason}
	}
	return err
}

func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}
