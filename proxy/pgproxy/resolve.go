package pgproxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
)

// ticket is what makes a check one comparison: see fence.claim.
type ticket struct{ seq, epoch string }

// array is the value of the domains holds_ticket and present.
func (t *ticket) array() []byte { return []byte("{" + t.seq + "," + t.epoch + "}") }

// open prepares the session at the server, and resolves the token that it began
// with, before the client hears that it may begin.
func (s *session) open(ctx context.Context) error {
	var text strings.Builder
	text.WriteString("SELECT coalesce(pg_catalog.current_setting('fence.token', true), '')")
	for _, domain := range domains {
		fmt.Fprintf(&text, ", pg_catalog.to_regtype('fence.%s')::pg_catalog.oid", domain)
	}
	e, err := s.ask(ctx, s.own.appendOnce(nil, text.String()))
	if err != nil {
		return err
	}
	if e.err != nil || len(e.rows) != 1 || len(e.rows[0]) != 1+len(domains) {
		return fmt.Errorf("look up the fence: %w", orUnexpected(e.err))
	}
	token := *e.rows[0][0]
	if s.own.oids, s.own.fenced = oidsOf(e.rows[0][1:]); !s.own.fenced && (token != "" || s.config.Untokened != Allow) {
		return refuseUnfenced(s.database)
	}
	return s.prepare(ctx, token)
}

// prepare prepares the statements of the proxy's own. If another session had the
// token, they are tried with its ticket in the same round trip.
func (s *session) prepare(ctx context.Context, token string) error {
	b := s.own.appendPrepare(nil)
	t := s.memory.ticket(s.database, token)
	if t != nil {
		b = s.own.appendBind(b, checkStatement, []byte(token), t.array())
	}
	e, err := s.ask(ctx, b)
	switch {
	case err != nil:
		return err
	case e.err == nil && t != nil:
		s.resolved(gate.Fast, newAffixes(s.own, gate.Policy(s.config.Untokened), token, t), token)
		return nil
	case e.err != nil && t == nil:
		return fmt.Errorf("prepare the check: %w", e.err)
	case t != nil:
		s.memory.forgetTicket(s.database, token)
	}
	return s.resolveToken(ctx, token)
}

// oidsOf reads the oids of the domains. Without the fence, the parameters of the
// check are integers, to which no token can be converted: everything that is
// asked of it is refused.
func oidsOf(row []*string) (oids map[string]uint32, fenced bool) {
	const int4 = 23
	oids, fenced = make(map[string]uint32, len(row)), true
	for i, value := range row {
		oids[domains[i]] = int4
		if value == nil {
			fenced = false
			continue
		}
		n, err := strconv.ParseUint(*value, 10, 32)
		if err != nil {
			fenced = false
		}
		oids[domains[i]] = uint32(n)
	}
	if !fenced {
		for _, domain := range domains {
			oids[domain] = int4
		}
	}
	return oids, fenced
}

func orUnexpected(err *serverError) error {
	if err == nil {
		return errNotUnderstood
	}
	return err
}

// resolve looks up which token the session has by now, claims it if nobody has,
// and from then on checks by it.
func (s *session) resolve(ctx context.Context) error {
	e, err := s.ask(ctx, s.own.run(tokenStatement))
	if err != nil {
		return err
	}
	if e.err != nil || len(e.rows) != 1 {
		return s.unresolved(orUnresolved(e.err))
	}
	token := ""
	if e.rows[0][0] != nil {
		token = *e.rows[0][0]
	}
	return s.resolveToken(ctx, token)
}

func orUnresolved(err *serverError) *serverError {
	if err == nil {
		return &serverError{code: stateUnclaimed, message: "fence: the token of the session cannot be read"}
	}
	return err
}

func (s *session) resolveToken(ctx context.Context, token string) error {
	policy := gate.Policy(s.config.Untokened)
	if token == "" {
		kind := gate.Slow
		if policy == gate.Allow {
			kind = gate.Pass
		}
		s.resolved(kind, newAffixes(s.own, policy, token, nil), token)
		return nil
	}
	s.affixes = newAffixes(s.own, policy, token, nil)
	if !s.own.fenced {
		return s.unresolved(&serverError{code: stateCannotFence, message: refuseUnfenced(s.database).message, hint: refuseUnfenced(s.database).hint})
	}
	tokens, err := carrier.GUCTokens(token)
	if err != nil {
		return s.unresolved(&serverError{code: stateMalformed, message: "fence: " + err.Error()})
	}
	e, err := s.ask(ctx, s.own.run(ticketStatement, []byte(token)))
	if err != nil {
		return err
	}
	if e.err != nil && e.err.code == stateUnclaimed {
		if e, err = s.claim(ctx, tokens); err != nil {
			return err
		}
	}
	if e.err != nil {
		return s.unresolved(e.err)
	}
	kind, t := gate.Slow, ticketOf(e)
	if t != nil && len(tokens) == 1 && tokens[0].Mode == guard.Exclusive {
		kind = gate.Fast
		s.memory.rememberTicket(s.database, token, *t)
	} else {
		t = nil
	}
	s.resolved(kind, newAffixes(s.own, policy, token, t), token)
	if !slices.ContainsFunc(tokens, func(t guard.Token) bool { return t.Mode == guard.Shared }) {
		s.mu.Lock()
		s.machine.MayWrite()
		s.mu.Unlock()
	}
	return nil
}

func ticketOf(e *exchange) *ticket {
	if len(e.rows) != 1 || len(e.rows[0]) != 2 || e.rows[0][0] == nil || e.rows[0][1] == nil {
		return nil
	}
	return &ticket{seq: *e.rows[0][0], epoch: *e.rows[0][1]}
}

// claim claims each token in a transaction of its own.
func (s *session) claim(ctx context.Context, tokens []guard.Token) (e *exchange, err error) {
	for _, t := range tokens {
		start := time.Now()
		b := s.own.appendOnce(nil, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
		b = s.own.appendOnce(b, "SET LOCAL statement_timeout = 0")
		b = s.own.appendOnce(b, "SELECT c.seq, c.epoch FROM fence.claim($1, $2::pg_catalog.interval, $3) AS c",
			[]byte(t.String()), fmt.Appendf(nil, "%d microseconds", s.config.ClaimWait.Microseconds()), strconv.AppendBool(nil, s.config.Evict))
		b = s.own.appendOnce(b, "COMMIT")
		if e, err = s.askInBlock(ctx, b); err != nil {
			return nil, err
		}
		s.claimed(t, time.Since(start), e.err)
		if e.err != nil {
			break
		}
	}
	return e, nil //nolint:nilerr // what the server says is in e
}

func (s *session) resolved(kind gate.Kind, a *affixes, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.affixes, s.token = a, token
	s.machine.Resolved(kind)
}

// unresolved has the next statement refused.
func (s *session) unresolved(err *serverError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machine.Unresolved(err.refusal())
	return nil
}
