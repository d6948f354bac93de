package pgstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Claim raises the mark of the token's resource to token: once it has
// returned, no write under an older token is ever applied (I1). Call it right
// after the lock was granted, before anything is read; it is durable, on a
// synchronous standby too, and a token already claimed is claimed again at no
// cost but that of waiting for such a standby.
//
// It waits for the transactions of older holders, at most Config.ClaimWait;
// then it ends their sessions if Config.Evict, otherwise it fails with a
// *BlockedError that names them. A token that is no longer the newest is
// refused at once. After an unknown outcome just call it again.
func (s *Store) Claim(ctx context.Context, token guard.Token) error {
	if err := token.Validate(); err != nil {
		return s.refused(ctx, err)
	}
	s.claims.forget(token)
	_, err := s.claimed(ctx, token)
	return s.refused(ctx, err)
}

// grant is a token that has been claimed.
type grant struct {
	token  guard.Token
	text   string
	ticket ticket
}

// claimed returns the grant of a token, claiming it if this store has not yet.
func (s *Store) claimed(ctx context.Context, token guard.Token) (grant, error) {
	if g, ok := s.claims.find(token); ok {
		return g, nil
	}
	if err := token.Validate(); err != nil {
		return grant{}, err
	}
	return s.claims.once(ctx, token, s.claim)
}

// claim is one message, so that the session's defaults (isolation level, read
// only, timeouts) do not matter and nothing can come between claim and COMMIT.
func (s *Store) claim(ctx context.Context, token guard.Token) (grant, error) {
	if err := s.ready(ctx); err != nil {
		return grant{}, err
	}
	g := grant{token: token, text: token.String()}
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return grant{}, notApplied("acquire connection", err)
	}
	defer pooled.Release()
	conn := pooled.Conn()
	tag, err := simple(ctx, conn.PgConn(), s.claimMessage(g.text), func(_ int, row [][]byte) error {
		if len(row) != 2 {
			return nil
		}
		var err error
		g.ticket, err = ticketOf(row[0], row[1])
		return err
	})
	if err == nil && tag != commitTag {
		err = unexpectedTagError(tag)
	}
	if err == nil {
		return g, nil
	}
	w := work{store: s, conn: conn, one: [1]grant{g}}
	w.grants = w.one[:]
	w.rollback(ctx)
	return grant{}, s.claimFailed(ctx, &w, err)
}

func (s *Store) claimMessage(token string) string {
	return "begin isolation level read committed read write;" +
		noTimeouts("statement_timeout", "transaction_timeout") +
		"select c.seq, c.epoch from fence.claim('" + token + "', pg_catalog.make_interval(secs => " +
		strconv.FormatFloat(s.config.ClaimWait.Seconds(), 'f', 6, 64) + "), " +
		strconv.FormatBool(s.config.Evict) + ") c;commit"
}

// noTimeouts lifts timeouts of the session to the end of the transaction;
// transaction_timeout is not known before PostgreSQL 17. One row, one column.
func noTimeouts(names ...string) string {
	lifts := make([]string, len(names))
	for i, name := range names {
		lifts[i] = "case when pg_catalog.current_setting('" + name + "', true) is not null then pg_catalog.set_config('" + name + "', '0', true) end"
	}
	return "select " + strings.Join(lifts, " operator(pg_catalog.||) ") + ";"
}

func (s *Store) claimFailed(ctx context.Context, w *work, err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == lockNotAvailable && pgErr.Detail != "" {
		resource := w.grants[0].token.Resource
		// On this connection: the pool may have no other. The error names them
		// already, should they be gone by now.
		blockers, _ := s.blockers(ctx, w.conn, resource)
		return &BlockedError{Resource: resource, Waited: s.config.ClaimWait, Blockers: blockers, detail: pgErr.Detail, err: pgErr}
	}
	return w.settled("claim", w.refusal(s.explain(err)))
}

// maxClaims bounds what a store remembers of claimed tokens: about half a KiB
// each, so 8 MiB. Beyond it any one is forgotten for another; not the oldest,
// for holders that take turns would each time have lost theirs. It is claimed
// again then, which changes nothing if it is current, and is refused otherwise.
const maxClaims = 16 << 10

// claims remembers which tokens were claimed, and the newest ticket of each. A
// claim is for ever: the mark never goes down. The zero value is ready for use.
type claims struct {
	mu      sync.RWMutex
	done    map[guard.Token]grant
	running map[guard.Token]*flight
}

// flight is a claim under way, which all who need it wait for.
type flight struct {
	landed chan struct{}
	grant  grant
	err    error
}

func (c *claims) find(token guard.Token) (grant, bool) {
	c.mu.RLock()
	g, ok := c.done[token]
	c.mu.RUnlock()
	return g, ok
}

func (c *claims) forget(token guard.Token) {
	c.mu.Lock()
	delete(c.done, token)
	c.mu.Unlock()
}

// renew keeps the ticket with which the database answered a check that did not
// match. Only call it when the COMMIT of the transaction that it came from was
// acknowledged.
func (c *claims) renew(token guard.Token, t ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g, ok := c.done[token]; ok {
		g.ticket = t
		c.done[token] = g
	}
}

// once claims token, or waits for whoever is claiming it. A claim that ended
// with its caller's ctx says nothing about the others': one of them claims.
func (c *claims) once(ctx context.Context, token guard.Token, claim func(context.Context, guard.Token) (grant, error)) (grant, error) {
	for {
		c.mu.Lock()
		if g, ok := c.done[token]; ok {
			c.mu.Unlock()
			return g, nil
		}
		f, busy := c.running[token]
		if !busy {
			f = &flight{landed: make(chan struct{}), err: errors.New("claim panicked")}
			if c.running == nil {
				c.running, c.done = map[guard.Token]*flight{}, map[guard.Token]grant{}
			}
			c.running[token] = f
			c.mu.Unlock()
			defer c.land(token, f)
			f.grant, f.err = claim(ctx, token)
			return f.grant, f.err
		}
		c.mu.Unlock()
		select {
		case <-f.landed:
			if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
				return f.grant, f.err
			}
		case <-ctx.Done():
			return grant{}, notApplied("wait for claim", ctx.Err())
		}
	}
}

func (c *claims) land(token guard.Token, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, token)
	if f.err == nil {
		for old := range c.done {
			if len(c.done) < maxClaims {
				break
			}
			delete(c.done, old)
		}
		c.done[token] = f.grant
	}
	close(f.landed)
}
