package ways

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// ClaimWait is the longest time that claims wait before they evict.
const ClaimWait = 2 * time.Second

// poolSize is how many connections a store has: enough for some holders who are
// held up, and for others.
const poolSize = 8

// storeWay goes in by package pgstore.
type storeWay struct {
	pool   *pgxpool.Pool
	stores []*pgstore.Store
	dice   *rand.Rand
}

func openStore(lean bool) func(Access, *rand.Rand) (Way, error) {
	return func(a Access, dice *rand.Rand) (Way, error) {
		config, err := pgxpool.ParseConfig(a.Postgres)
		if err != nil {
			return nil, err
		}
		config.MaxConns = poolSize
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return nil, err
		}
		w := &storeWay{pool: pool, dice: dice}
		for _, wait := range []time.Duration{30 * time.Millisecond, ClaimWait} {
			store, err := pgstore.New(pool, pgstore.Config{ClaimWait: wait, Evict: true, Lean: lean})
			if err != nil {
				pool.Close()
				return nil, err
			}
			w.stores = append(w.stores, store)
		}
		return w, nil
	}
}

func (w *storeWay) Close() { w.pool.Close() }

func (w *storeWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	t := &storeTenure{store: w.stores[w.dice.IntN(len(w.stores))], token: token, at: r, dice: w.dice}
	return t, t.store.Claim(ctx, token)
}

type storeTenure struct {
	store *pgstore.Store
	token guard.Token
	at    Register
	dice  *rand.Rand
}

var _ Parallel = (*storeTenure)(nil)

func (t *storeTenure) Leave() {}

func (t *storeTenure) Parallel() {}

func (t *storeTenure) Read(ctx context.Context) (s history.State, err error) {
	err = t.store.InTx(ctx, t.token, func(ctx context.Context, tx pgx.Tx) (err error) {
		s, err = t.at.read(ctx, tx)
		return err
	})
	return s, err
}

// levels are the isolation levels, any of which a transaction may have.
var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func (t *storeTenure) Write(ctx context.Context, e history.Entry, pause func()) (s history.State, err error) {
	if t.dice.IntN(4) == 0 {
		batch := &pgx.Batch{}
		batch.Queue(t.at.insert(t.dice), e.ID, e.Number, e.Prev).QueryRow(func(row pgx.Row) error { return row.Scan(&s.Version) })
		s.ID = e.ID
		return s, noRow(t.store.SendBatch(ctx, t.token, batch))
	}
	o := pgstore.TxOptions{TxOptions: pgx.TxOptions{IsoLevel: levels[t.dice.IntN(len(levels))]}, TrackCommit: t.dice.IntN(2) == 0}
	err = t.store.InTxOptions(ctx, t.token, o, func(ctx context.Context, tx pgx.Tx) (err error) {
		pause()
		s, err = t.at.put(ctx, tx, e, t.dice)
		pause()
		return err
	})
	return s, noRow(err)
}

// noRow: a transaction that had no row to write was applied, and the write not.
func noRow(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return guard.WithOutcome(err, guard.NotApplied)
	}
	return err
}
