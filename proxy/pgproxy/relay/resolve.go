package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
)

// open prepares the session at the server, and resolves the token that it began
// with, before the client hears that it may begin.
func (s *session) open(ctx context.Context) error {
	var text strings.Builder
	domains := own.Domains()
	text.WriteString("SELECT coalesce(pg_catalog.current_setting('fence.token', true), ''), " +
		"pg_catalog.current_setting('default_transaction_isolation')")
	for _, domain := range domains {
		fmt.Fprintf(&text, ", pg_catalog.to_regtype('fence.%s')::pg_catalog.oid", domain)
	}
	e, err := s.ask(ctx, s.own.AppendOnce(nil, text.String()))
	if err != nil {
		return err
	}
	if e.err != nil || len(e.rows) != 1 || len(e.rows[0]) != 2+len(domains) || e.rows[0][0] == nil || e.rows[0][1] == nil {
		return fmt.Errorf("look up the fence: %w", orUnexpected(e.err))
	}
	token := *e.rows[0][0]
	s.mu.Lock()
	s.machine.DefaultIsolation(*e.rows[0][1])
	s.mu.Unlock()
	if s.own.OIDs, s.own.Fenced = oidsOf(e.rows[0][2:]); !s.own.Fenced && (token != "" || s.Config.Untokened != gate.Allow) {
		return refusal.Unfenced(s.Database)
	}
	return s.prepare(ctx, token)
}

// prepare prepares the statements of the proxy's own. If another session had the
// token, they are tried with its ticket in the same round trip.
func (s *session) prepare(ctx context.Context, token string) error {
	b := s.own.AppendPrepare(nil)
	t := s.memory.ticket(s.Database, token)
	if t != nil {
		b = s.own.AppendBind(b, own.CheckStatement, []byte(token), t.Array())
	}
	e, err := s.ask(ctx, b)
	switch {
	case err != nil:
		return err
	case e.err == nil && t != nil:
		s.resolved(gate.Fast, own.NewAffixes(s.own, s.Config.Untokened, token, t), token)
		return nil
	case e.err != nil && t == nil:
		return fmt.Errorf("prepare the check: %w", e.err)
	case t != nil:
		s.memory.forgetTicket(s.Database, token)
	}
	return s.resolveToken(ctx, token)
}

// oidsOf reads the oids of the domains. Without the fence, the parameters of the
// check are integers, to which no token can be converted: everything that is
// asked of it is refused.
func oidsOf(row []*string) (oids map[string]uint32, fenced bool) {
	const int4 = 23
	domains := own.Domains()
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
	e, err := s.ask(ctx, s.own.Run(own.TokenStatement))
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
		return &serverError{code: refusal.StateUnclaimed, message: "fence: the token of the session cannot be read"}
	}
	return err
}

func (s *session) resolveToken(ctx context.Context, token string) error {
	s.mu.Lock()
	s.asked = token
	s.mu.Unlock()
	policy := s.Config.Untokened
	if token == "" {
		kind := gate.Slow
		if policy == gate.Allow {
			kind = gate.Pass
		}
		s.resolved(kind, own.NewAffixes(s.own, policy, token, nil), token)
		return nil
	}
	s.affixes = own.NewAffixes(s.own, policy, token, nil)
	if !s.own.Fenced {
		return s.unresolved(&serverError{code: refusal.StateCannotFence, message: refusal.Unfenced(s.Database).Message, hint: refusal.Unfenced(s.Database).Hint})
	}
	tokens, err := carrier.GUCTokens(token)
	if err != nil {
		return s.unresolved(malformed(err))
	}
	e, err := s.ask(ctx, s.own.Run(own.TicketStatement, []byte(token)))
	if err != nil {
		return err
	}
	switch {
	case e.err != nil && e.err.code == refusal.StateUnclaimed:
		e, err = s.claim(ctx, tokens)
	case e.err == nil && awaitsStandby(e):
		e.err, err = s.awaitStandby(ctx)
	}
	if err != nil {
		return err
	}
	if e.err != nil {
		return s.unresolved(e.err)
	}
	kind, t := gate.Slow, ticketOf(e)
	if t != nil && len(tokens) == 1 && tokens[0].Mode == guard.Exclusive {
		kind = gate.Fast
		s.memory.rememberTicket(s.Database, token, *t)
	} else {
		t = nil
	}
	s.resolved(kind, own.NewAffixes(s.own, policy, token, t), token)
	if !slices.ContainsFunc(tokens, func(t guard.Token) bool { return t.Mode == guard.Shared }) {
		s.mu.Lock()
		s.machine.MayWrite()
		s.mu.Unlock()
	}
	return nil
}

func ticketOf(e *exchange) *own.Ticket {
	if len(e.rows) != 1 || len(e.rows[0]) < 2 || e.rows[0][0] == nil || e.rows[0][1] == nil {
		return nil
	}
	return &own.Ticket{Seq: *e.rows[0][0], Epoch: *e.rows[0][1]}
}

// appendBegin appends what begins a transaction that may have to wait.
func (s *session) appendBegin(dst []byte) []byte {
	for _, text := range []string{"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", "SET LOCAL statement_timeout = 0", noTransactionTimeout} {
		dst = s.own.AppendOnce(dst, text)
	}
	return dst
}

// noTransactionTimeout lifts the timeout of that name to the end of the transaction,
// which BEGIN has started; before PostgreSQL 17 there is none. It returns no row.
const noTransactionTimeout = "SELECT WHERE CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL " +
	"THEN pg_catalog.set_config('transaction_timeout', '0', true) ELSE '' END IS NULL"

// claim claims each token in a transaction of its own.
func (s *session) claim(ctx context.Context, tokens []guard.Token) (e *exchange, err error) {
	for _, t := range tokens {
		start := time.Now()
		b := s.appendBegin(nil)
		b = s.own.AppendOnce(b, "SELECT c.seq, c.epoch FROM fence.claim($1, $2::pg_catalog.interval, $3) AS c",
			[]byte(t.String()), fmt.Appendf(nil, "%d microseconds", s.Config.ClaimWait.Microseconds()), strconv.AppendBool(nil, s.Config.Evict))
		b = s.own.AppendOnce(b, "COMMIT")
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

func (s *session) resolved(kind gate.Kind, a *own.Affixes, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.affixes, s.token = a, token
	s.machine.Resolved(kind)
}

// malformed is what fence.malformed says, of a token that did not get so far.
func malformed(err error) *serverError {
	message := "fence: " + err.Error()
	if refused := (*guard.RefusedError)(nil); errors.As(err, &refused) {
		message = refused.Error()
	}
	return &serverError{code: refusal.StateMalformed, message: message, hint: "A token reads ft1:<x|s>:<number>:<holder>:<issuer>:<resource>."}
}

// unresolved has the next statement refused.
func (s *session) unresolved(err *serverError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machine.Unresolved(err.refusal())
	return nil
}
