package relay

import (
	"context"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
)

// A claim whose COMMIT was cancelled while it waited for the synchronous standby is
// there on this server alone, and PostgreSQL says that it is committed, with a warning.
// So whoever finds a token claimed, and not by a claim of this proxy's that has waited,
// commits something itself where there is such a standby: that waits for all that was
// committed before (I1, I6).

// awaitsStandby reports whether the answer to TicketStatement says so.
func awaitsStandby(e *exchange) bool {
	return len(e.rows) == 1 && len(e.rows[0]) == 3 && e.rows[0][2] != nil && *e.rows[0][2] == "t"
}

// awaitStandby waits until the synchronous standby has all that is committed by now.
func (s *session) awaitStandby(ctx context.Context) (failed *serverError, err error) {
	b := s.appendBegin(nil)
	for _, text := range []string{"SET LOCAL synchronous_commit = on", "SELECT pg_catalog.pg_logical_emit_message(true, 'fence', '')", "COMMIT"} {
		b = s.own.AppendOnce(b, text)
	}
	e, err := s.askInBlock(ctx, b)
	if err != nil {
		return nil, err
	}
	return e.err, nil
}

// hear takes a notice that comes while the exchange is under way, as whole() has it.
func (e *exchange) hear(body []byte) {
	e.gaveUp = e.gaveUp || pgwire.FieldOf(body, pgwire.Routine) == "SyncRepWaitForLSN"
}
