package ways

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Two are two registers that one transaction reads or writes, or their tokens.
type Two[T any] [2]T

// Double is a Way whose transactions can be about two resources.
type Double interface {
	Way
	// EnterBoth claims both tokens.
	EnterBoth(ctx context.Context, tokens Two[guard.Token], r Two[Register]) (Both, error)
}

// Both is what a Tenure is, of two registers: what happens to one happens to the
// other.
type Both interface {
	Read(ctx context.Context) (Two[history.State], error)
	Write(ctx context.Context, e Two[history.Entry], pause func()) (Two[history.State], error)
	Leave()
}

var (
	_ Double = (*storeWay)(nil)
	_ Double = (*pgxWay)(nil)
)

// each does the same to both, in their order.
func (r Two[T]) each(do func(i int) error) error {
	for i := range r {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func (w *storeWay) EnterBoth(ctx context.Context, tokens Two[guard.Token], r Two[Register]) (Both, error) {
	t := &storeBoth{w, w.stores[w.dice.IntN(len(w.stores))], tokens, r}
	return t, tokens.each(func(i int) error { return t.store.Claim(ctx, tokens[i]) })
}

type storeBoth struct {
	way    *storeWay
	store  *pgstore.Store
	tokens Two[guard.Token]
	at     Two[Register]
}

func (t *storeBoth) Leave() {}

func (t *storeBoth) in(ctx context.Context, o pgstore.TxOptions, do func(tx pgx.Tx, i int) error) error {
	o.Also = t.tokens[1:]
	return noRow(t.store.InTxOptions(ctx, t.tokens[0], o, func(_ context.Context, tx pgx.Tx) error {
		return t.at.each(func(i int) error { return do(tx, i) })
	}))
}

func (t *storeBoth) Read(ctx context.Context) (s Two[history.State], err error) {
	err = t.in(ctx, pgstore.TxOptions{}, func(tx pgx.Tx, i int) (err error) {
		s[i], err = t.at[i].read(ctx, tx)
		return err
	})
	return s, err
}

func (t *storeBoth) Write(ctx context.Context, e Two[history.Entry], pause func()) (s Two[history.State], err error) {
	dice := t.way.dice
	o := pgstore.TxOptions{TxOptions: pgx.TxOptions{IsoLevel: levels[dice.IntN(len(levels))]}, TrackCommit: dice.IntN(2) == 0}
	err = t.in(ctx, o, func(tx pgx.Tx, i int) (err error) {
		pause()
		s[i], err = t.at[i].put(ctx, tx, e[i], dice)
		return err
	})
	return s, err
}

// EnterBoth sends both tokens as the session's.
func (w *pgxWay) EnterBoth(ctx context.Context, tokens Two[guard.Token], r Two[Register]) (Both, error) {
	conn, err := w.connect(ctx, tokens[:]...)
	if err != nil {
		return nil, err
	}
	return &pgxBoth{pgxTenure{conn: conn, dice: w.dice}, r}, nil
}

type pgxBoth struct {
	pgxTenure

	both Two[Register]
}

func (t *pgxBoth) Read(ctx context.Context) (s Two[history.State], err error) {
	err = t.both.each(func(i int) (err error) {
		s[i], err = t.both[i].read(ctx, t.conn, t.mode())
		return err
	})
	if err != nil {
		err = answered(err, false)
	}
	return s, err
}

func (t *pgxBoth) Write(ctx context.Context, e Two[history.Entry], pause func()) (s Two[history.State], err error) {
	_, err = block(ctx, t.conn, levels[t.dice.IntN(len(levels))], func() (none history.State, _ error) {
		return none, t.both.each(func(i int) (err error) {
			pause()
			s[i], err = t.both[i].put(ctx, t.conn, e[i], t.dice, t.mode())
			return err
		})
	})
	return s, err
}
