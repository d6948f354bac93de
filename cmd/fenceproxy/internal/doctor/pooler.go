package doctor

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
)

// between finds out what is between this program and the server. A pooler has
// keys of its own to cancel by, so the process that it names is not the one that
// answers.
func (d *postgresDoctor) between(ctx context.Context, options bool) error {
	var backend, port int64
	var seen string
	err := d.one(ctx, "session", `SELECT pg_backend_pid(), coalesce(inet_server_port(), 0), coalesce(current_setting('`+probeSetting+`', true), '')`,
		&backend, &port, &seen)
	if err != nil {
		return err
	}
	const first = "let SET fence.token = … be a session's first statement, or use pgstore"
	switch {
	case seen == "here":
		d.add("PGOPTIONS", levelOK, "", "reaches the server, so tokens in it do")
	case options:
		d.add("PGOPTIONS", levelWarning, first, "is taken and does not reach the server: tokens in it get lost on the way")
	default:
		d.add("PGOPTIONS", levelWarning, first, "is refused by what is in between: clients with a token in it cannot connect")
	}
	if int64(d.conn.PgConn().PID()) == backend {
		if asked := int64(d.conn.Config().Port); port != 0 && port != asked {
			d.add("in between", levelOK, "", "no pooler; something passes port %d on to %d of the server: fenceproxy, or a load balancer", asked, port)
		} else {
			d.add("in between", levelOK, "", "nothing: connected to the server itself")
		}
		return nil
	}
	shared, err := d.sharesSessions(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		d.add("in between", levelWarning, "", "a pooler or a proxy, whose mode could not be found out: %v", cli.Innermost(err))
	case shared:
		d.add("in between", levelWarning, "session mode; or pgstore, or fence.check('ft1:…') in front of COMMIT",
			"a pooler that gives each transaction another session: a token that is SET there leaks to whoever is next")
	default:
		d.add("in between", levelNote, "server_reset_query = DISCARD ALL, which is PgBouncer's default",
			"a pooler in session mode, or a proxy: a session is one client's until it leaves")
	}
	return nil
}

// poolerLimit is how long a second connection may wait for a session of the
// server: a pool of one, in session mode, has none.
const poolerLimit = 5 * time.Second

// sharesSessions says whether several clients use one session of the server in
// turn, as in transaction mode.
func (d *postgresDoctor) sharesSessions(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, poolerLimit)
	defer cancel()
	mine, err := backends(ctx, d.conn)
	if err != nil || len(mine) > 1 {
		return len(mine) > 1, err
	}
	other, err := pgx.ConnectConfig(ctx, d.conn.Config())
	if err != nil {
		return false, err
	}
	defer other.Close(context.WithoutCancel(ctx))
	// While the other one has a transaction open it keeps its session: either
	// that is ours, or we get another one than before if ours was free to take.
	if _, err := other.Exec(ctx, "BEGIN"); err != nil {
		return false, err
	}
	theirs, err := backends(ctx, other)
	if err != nil {
		return false, err
	}
	for pid := range theirs {
		if mine[pid] {
			return true, nil
		}
	}
	again, err := backends(ctx, d.conn)
	for pid := range again {
		if !mine[pid] {
			return true, err
		}
	}
	return false, err
}

// backends are the processes of the server that answer a connection, in a few
// statements.
func backends(ctx context.Context, conn *pgx.Conn) (map[int64]bool, error) {
	pids := map[int64]bool{}
	for range 3 {
		var pid int64
		if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()").Scan(&pid); err != nil {
			return nil, err
		}
		pids[pid] = true
	}
	return pids, nil
}
