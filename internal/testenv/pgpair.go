package testenv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/disk"
)

// PostgresPair is a Postgres that can have a synchronous standby, which can be
// promoted in its place. Each of the two has a place for its data that can be
// full.
type PostgresPair struct {
	primary, other *half
	attached       bool // the other one is a standby, and runs
}

// half is one of the two.
type half struct {
	*PostgresServer // with neither databases nor roles of its own until it has started
	local           *localserver.Cluster
	disk            *disk.Disk // nil if it has none of its own
}

// pairLimit is how long a copy of a server may take, or until it is in step.
const pairLimit = time.Minute

// StartPostgresPair starts the primary; Attach starts the standby. If size is not
// 0 each has a disk of so many bytes: where CannotFill says why not, there is no
// such pair. Both end with the test.
func StartPostgresPair(tb testing.TB, c PostgresConfig, size int64) *PostgresPair {
	tb.Helper()
	if c.Major == 0 {
		c.Major = Postgres(tb).major
	}
	p := &PostgresPair{primary: newHalf(tb, c, size), other: newHalf(tb, c, size)}
	need(tb, fill(p.primary.local))
	p.other.local.Password = p.primary.local.Password
	need(tb, p.primary.start())
	return p
}

func newHalf(tb testing.TB, c PostgresConfig, size int64) *half {
	tb.Helper()
	program, err := findPostgres(c.Major)
	need(tb, err)
	who, err := localserver.ServerAccount()
	need(tb, err)
	program, err = reachablePostgres(program, who)
	need(tb, err)
	at, err := newPlace(who, size)
	need(tb, err)
	settings := c.settings()
	settings["wal_retrieve_retry_interval"] = "100ms"
	// A log of this size is overwritten and not made anew.
	settings["min_wal_size"], settings["max_wal_size"] = "64MB", "128MB"
	local := &localserver.Cluster{Postgres: program, Account: who, Dir: at.dir, Settings: settings}
	tb.Cleanup(func() { local.Stop(); at.remove() })
	return &half{&PostgresServer{major: c.Major, cluster: local, private: true}, local, at.disk}
}

func (h *half) start() error {
	err := h.local.Start(context.Background())
	h.admin = h.local.URL()
	return err
}

// Primary is the server that can be written.
func (p *PostgresPair) Primary() *PostgresServer { return p.primary.PostgresServer }

// Freeze, Thaw, Kill and Restart do to the primary what those of PostgresServer do.

// Freeze stops the primary.
func (p *PostgresPair) Freeze(tb testing.TB) { tb.Helper(); p.primary.Freeze(tb) }

// Thaw lets a frozen primary run on.
func (p *PostgresPair) Thaw(tb testing.TB) { tb.Helper(); p.primary.Thaw(tb) }

// Kill ends the primary as a crash does.
func (p *PostgresPair) Kill(tb testing.TB) { tb.Helper(); p.primary.Kill(tb) }

// Restart starts the primary again.
func (p *PostgresPair) Restart(tb testing.TB) { tb.Helper(); p.primary.Restart(tb) }

// FreezeStandby stops the standby, and with it every commit of the primary.
func (p *PostgresPair) FreezeStandby(tb testing.TB) { tb.Helper(); p.other.Freeze(tb) }

// ThawStandby lets it run on.
func (p *PostgresPair) ThawStandby(tb testing.TB) { tb.Helper(); p.other.Thaw(tb) }

// Fill leaves no more than some bytes free on the primary's disk.
func (p *PostgresPair) Fill(tb testing.TB, leave int64) {
	tb.Helper()
	if err := p.primary.disk.Fill(leave); err != nil {
		tb.Fatalf("testenv: fill the disk of postgres: %v", err)
	}
}

// Free gives back what Fill took, and returns when the primary answers: a server
// that had no room for its log has ended.
func (p *PostgresPair) Free(tb testing.TB) {
	tb.Helper()
	if err := p.primary.disk.Free(); err != nil {
		tb.Fatalf("testenv: free the disk of postgres: %v", err)
	}
	if p.primary.local.Await(context.Background(), 10*time.Second) != nil {
		p.primary.Restart(tb)
	}
}

// Attach gives the primary a standby, copied from it, and returns when no commit
// is acknowledged that the standby has not stored.
func (p *PostgresPair) Attach(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*pairLimit)
	defer cancel()
	err := p.other.local.Follow(ctx, p.primary.local)
	if err == nil {
		err = p.other.start()
	}
	if err == nil {
		p.attached = true
		err = p.primary.reload("alter system set synchronous_standby_names = '*'")
	}
	if err == nil {
		err = p.await()
	}
	if err != nil {
		tb.Fatalf("testenv: start a standby: %v", err)
	}
}

// Detach ends the standby, if there is one, and has the primary acknowledge alone.
func (p *PostgresPair) Detach(tb testing.TB) {
	tb.Helper()
	if !p.attached {
		return
	}
	p.attached = false
	p.other.local.Stop()
	if err := p.primary.reload("alter system reset synchronous_standby_names"); err != nil {
		tb.Fatalf("testenv: give up a standby: %v", err)
	}
}

// Promote kills the primary and promotes the standby, which acknowledges alone
// from then on, and is what Primary returns. Without a standby that is in step
// nothing happens, and it returns false: what the primary has acknowledged would
// be lost.
func (p *PostgresPair) Promote(tb testing.TB) bool {
	tb.Helper()
	if !p.attached || p.await() != nil {
		return false
	}
	p.primary.Kill(tb)
	p.attached = false
	p.primary, p.other = p.other, p.primary
	err := withConn(p.primary.admin, func(ctx context.Context, c *pgx.Conn) error {
		var promoted bool
		err := c.QueryRow(ctx, "select pg_promote(true, 30)").Scan(&promoted)
		if err == nil && !promoted {
			err = errors.New("it is still a standby after 30 s")
		}
		return err
	})
	if err == nil {
		err = p.primary.reload("alter system reset synchronous_standby_names")
	}
	if err != nil {
		tb.Fatalf("testenv: promote a standby: %v", err)
	}
	return true
}

// reload changes what the server is set to, and makes it known.
func (h *half) reload(statement string) error {
	return withConn(h.admin, func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.Exec(ctx, statement); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "select pg_reload_conf()")
		return err
	})
}

// await returns when the standby is synchronous, and has stored all that the
// primary had by then: what was committed just before it was, too, since a commit
// is flushed before it waits for a standby.
func (p *PostgresPair) await() error {
	const standby = "select coalesce(bool_or(sync_state = 'sync' and flush_lsn >= $1::pg_lsn), false) from pg_stat_replication"
	return withConn(p.primary.admin, func(ctx context.Context, c *pgx.Conn) error {
		has := "0/0"
		inStep := func() (ok bool, err error) {
			err = c.QueryRow(ctx, standby, has).Scan(&ok)
			return ok, err
		}
		if err := until(ctx, inStep); err != nil {
			return err
		}
		if err := c.QueryRow(ctx, "select pg_current_wal_flush_lsn()::text").Scan(&has); err != nil {
			return err
		}
		return until(ctx, inStep)
	})
}

// until polls done until it is true or fails.
func until(ctx context.Context, done func() (bool, error)) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the standby is not in step: %w", ctx.Err())
		}
	}
}
