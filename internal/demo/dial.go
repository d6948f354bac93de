package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// connect opens what a worker works with. What it opened, close closes,
// whether or not connect returned an error.
func (w *worker) connect(ctx context.Context) error {
	var err error
	if w.pool, err = pgxpool.New(ctx, w.job.Postgres); err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	if w.store, err = pgstore.New(w.pool, pgstore.Config{}); err != nil {
		return err
	}
	if w.client, err = etcdClient(w.job.Etcd); err != nil {
		return err
	}
	w.locker, err = etcdlock.New(w.client, etcdlock.Config{TTL: w.job.TTL, Prefix: w.job.Prefix})
	return err
}

func (w *worker) close() error {
	var errs []error
	if w.locker != nil {
		errs = append(errs, w.locker.Close())
	}
	if w.client != nil {
		errs = append(errs, w.client.Close())
	}
	if w.pool != nil {
		w.pool.Close()
	}
	return errors.Join(errs...)
}
