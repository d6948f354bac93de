package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// claim claims token in a database.
func (e *errand) claim(ctx context.Context, url string, token guard.Token) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = 1
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectLimit
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return installed(ctx, c.Conn()) }); err != nil {
		return err
	}
	store, err := pgstore.New(pool, pgstore.Config{ClaimWait: e.claimWait, Evict: e.evict})
	if err != nil {
		return err
	}
	return store.Claim(ctx, token)
}

// explainClaim says what to do about a claim that failed for good.
func (e *errand) explainClaim(err error) error {
	var blocked *pgstore.BlockedError
	var refused *guard.RefusedError
	switch {
	case errors.As(err, &blocked):
		hint := "give a longer --claim-wait, or --evict to end them"
		if e.evict {
			hint = "those cannot be evicted"
		}
		return fail(exitHeld, "%w; %s", blocked, hint)
	case !errors.As(err, &refused):
		return err
	case errors.Is(err, guard.ErrForeign):
		return fail(exitDenied, "%w; if the resource is to take its numbers from %s from now on: fenceproxy marks adopt '%s' --issuer %s",
			refused, e.target, e.resource, shown(refused.Token.Issuer))
	case errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrDuplicate):
		return fail(exitDenied, "%w, although the lock is held: the lock service hands out numbers that it has handed out before, as after a restored backup; give it a new issuer, and the resource to that (fenceproxy marks adopt)", refused)
	}
	return fail(exitDenied, "%w", refused)
}

// claimAll claims token everywhere, in the order of the command line.
func (e *errand) claimAll(ctx context.Context, token guard.Token) error {
	for _, url := range e.claims {
		if err := e.claim(ctx, url, token); err != nil {
			return fmt.Errorf("claim %q: %w", e.resource, err)
		}
	}
	return nil
}
