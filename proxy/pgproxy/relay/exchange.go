package relay

import (
	"context"
	"fmt"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
)

// exchange is what the server answers to the proxy's own messages.
type exchange struct {
	rows [][]*string // nil is NULL
	err  *serverError
	// gaveUp: its COMMIT no longer waits for the synchronous standby, see hear.
	gaveUp bool
	// status is what ReadyForQuery said.
	status byte
	done   bool
}

// serverError is an ErrorResponse to a message of the proxy's own.
type serverError struct{ code, message, detail, hint string }

func (e *serverError) Error() string { return fmt.Sprintf("%s (SQLSTATE %s)", e.message, e.code) }

// refusal is the error as the refusal of a statement: the text of the prefix of
// that name. What is no refusal of the fence's own means that the token could
// not be claimed; but a cancel, or a timeout of the client's, is what it is: by
// its SQLSTATE clients know it.
func (e *serverError) refusal() string {
	code, message := e.code, e.message
	if !isRefusal(code) {
		code, message = refusal.StateUnclaimed, "fence: the token cannot be claimed: "+message
	}
	hint := e.hint
	if e.code == stateDenied && hint == "" {
		hint = "An operator lets the role claim with: fenceproxy migrate up --grant ROLE"
	}
	lines := []string{code + " " + message}
	for _, more := range []string{hint, withoutHolder(e.detail)} { // whom the claim has waited for is a detail
		if more != "" {
			lines = append(lines, more)
		}
	}
	return strings.Join(lines, "\n")
}

// isRefusal reports whether a statement may be refused with that code: see
// fence.raise_refusal.
func isRefusal(code string) bool {
	return strings.HasPrefix(code, "TK0") && len(code) == len(refusal.StateUnclaimed) || code == refusal.StateQueryCanceled
}

// add takes a message, with its header.
func (e *exchange) add(message []byte) {
	body := message[pgwire.HeaderSize:]
	switch message[0] {
	case 'D':
		var row []*string
		pgwire.Row(body, func(_ int, value []byte) {
			if value == nil {
				row = append(row, nil)
				return
			}
			text := string(value)
			row = append(row, &text)
		})
		e.rows = append(e.rows, row)
	case 'E':
		if e.err == nil {
			e.err = &serverError{
				code: pgwire.FieldOf(body, pgwire.Code), message: pgwire.FieldOf(body, pgwire.Message),
				detail: pgwire.FieldOf(body, pgwire.Detail), hint: pgwire.FieldOf(body, pgwire.Hint),
			}
		}
	case 'Z':
		e.status, e.done = body[0], true
	}
}

// ask sends messages of the proxy's own, to which it adds Sync, and returns what
// the server answers. Nothing of the client's may be under way. A statement of
// the proxy's own that is not there, since the client has dropped it by a way that
// the proxy cannot see, is prepared again.
func (s *session) ask(ctx context.Context, b []byte) (*exchange, error) {
	e, err := s.askOnce(ctx, b)
	if err != nil || e.err == nil || e.err.code != stateNoStatement || e.status != 'I' {
		return e, err
	}
	s.mu.Lock()
	s.machine.Lost()
	s.mu.Unlock()
	return s.askOnce(ctx, b)
}

const (
	stateNoStatement = "26000" // invalid_sql_statement_name
	stateDenied      = "42501" // insufficient_privilege
)

func (s *session) askOnce(ctx context.Context, b []byte) (*exchange, error) {
	e := &exchange{}
	all := pgwire.AppendSync(append(s.begin(e), b...))
	if err := s.toServer.Write(all, false); err != nil {
		return nil, fmt.Errorf("write server: %w", err)
	}
	if err := s.await(ctx, func() bool { return e.done }); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.exchange = nil
	s.mu.Unlock()
	if e.gaveUp && e.err == nil {
		e.err = &serverError{code: refusal.StateQueryCanceled, message: "fence: canceled while the claim waited for the synchronous standby"}
	}
	return e, nil
}

// begin begins an exchange, and returns what goes in front of its messages.
func (s *session) begin(e *exchange) (prepare []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.machine.Prepared() {
		prepare = s.own.AppendPrepare(nil)
	}
	s.machine.Own()
	s.exchange = e
	return prepare
}

// askInBlock is ask for messages that begin and end a block, which is rolled back
// if they fail.
func (s *session) askInBlock(ctx context.Context, b []byte) (*exchange, error) {
	e, err := s.ask(ctx, b)
	if err != nil || e.status == 'I' {
		return e, err
	}
	for {
		ended, err := s.ask(ctx, s.own.AppendOnce(nil, "ROLLBACK"))
		switch {
		case err != nil || ended.status == 'I':
			return e, err
		case ended.err == nil || ended.err.code != refusal.StateQueryCanceled: // a client may cancel twice
			return e, errNotUnderstood
		}
	}
}
