package pgstore

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ticket is what makes a check one comparison: as long as the sequence seq
// holds epoch, the token that it was given for is current. It is only ever a
// shortcut; where it does not match, the database decides by the token. So it
// holds on every connection, and whoever forgets or confuses one loses time.
type ticket struct {
	seq   uint32
	epoch uint64 // 63 bits
}

// presence is the key of the shared advisory lock by which a transaction that
// began under this ticket can be found (fence.presence_of).
func (t ticket) presence() (seq, epoch int32) {
	return int32(t.seq), int32(uint32(t.epoch)) //nolint:gosec // the same bits: an int4 is what such a key is made of
}

// parseTicket reads the text form of a record (seq,epoch).
func parseTicket(text []byte) (ticket, error) {
	seq, epoch, _ := bytes.Cut(bytes.Trim(text, "()"), []byte(","))
	return ticketOf(seq, epoch)
}

func ticketOf(seq, epoch []byte) (ticket, error) {
	s, err := strconv.ParseUint(string(seq), 10, 32)
	e, err2 := strconv.ParseUint(string(epoch), 10, 63)
	if err = errors.Join(err, err2); err != nil {
		return ticket{}, fmt.Errorf("read ticket: %w", err)
	}
	return ticket{seq: uint32(s), epoch: e}, nil
}

// sessionKey is where a connection keeps its session.
const sessionKey = "github.com/fenceproxy/fenceproxy/stores/postgres"

// session is what is known of one connection. Whoever has the connection has
// it alone.
type session struct {
	conn     *pgx.Conn
	named    map[string]string // texts of statements that were prepared by name
	prepares bool              // the connection's queries are prepared statements
	commands map[*pgconn.StatementDescription]*pgconn.StatementDescription
}

func sessionOf(conn *pgx.Conn) *session {
	data := conn.PgConn().CustomData()
	if known, ok := data[sessionKey].(*session); ok {
		return known
	}
	fresh := &session{
		conn:     conn,
		prepares: conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement,
		commands: map[*pgconn.StatementDescription]*pgconn.StatementDescription{},
	}
	data[sessionKey] = fresh
	return fresh
}
