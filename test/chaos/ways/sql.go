package ways

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// Tables is the SQL that makes the tables of a register, for a role. The second
// table remembers every write of the first, in the same transaction.
func (r Register) Tables(role string) string {
	return fmt.Sprintf(`
		CREATE TABLE register_%[1]s (version bigint NOT NULL, id text NOT NULL);
		INSERT INTO register_%[1]s VALUES (0, '');
		CREATE TABLE written_%[1]s (version bigint NOT NULL, id text NOT NULL, number bigint NOT NULL, prev text NOT NULL);
		GRANT ALL ON register_%[1]s, written_%[1]s TO %[2]s;`, r.Table, role)
}

// querier is a connection, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// read reads the register.
func (r Register) read(ctx context.Context, q querier, args ...any) (s history.State, err error) {
	err = q.QueryRow(ctx, "SELECT version, id FROM register_"+r.Table, args...).Scan(&s.Version, &s.ID)
	return s, err
}

// insert is the SQL of one write of $1, the ID, $2, the number, and $3, what was
// read before; version is what it returns. The row's lock puts writes in the order
// of their commits. At times the row is another one, after a DELETE: then a write
// that has waited for it finds none, and returns nothing.
func (r Register) insert(dice *rand.Rand) string {
	change := `WITH one AS (UPDATE register_%[1]s SET version = version + 1, id = $1::text RETURNING version) `
	if dice.IntN(16) == 0 {
		change = `WITH gone AS (DELETE FROM register_%[1]s RETURNING version), ` +
			`one AS (INSERT INTO register_%[1]s SELECT version + 1, $1::text FROM gone RETURNING version) `
	}
	return fmt.Sprintf(change+`INSERT INTO written_%[1]s SELECT version, $1::text, $2::bigint, $3::text FROM one RETURNING version`, r.Table)
}

// write is the same with the values in it.
func (r Register) write(e history.Entry, dice *rand.Rand) string {
	return strings.NewReplacer("$1", "'"+e.ID+"'", "$2", fmt.Sprint(e.Number), "$3", "'"+e.Prev+"'").Replace(r.insert(dice))
}

// put runs one write.
func (r Register) put(ctx context.Context, q querier, e history.Entry, dice *rand.Rand, mode ...any) (history.State, error) {
	s := history.State{ID: e.ID}
	err := q.QueryRow(ctx, r.insert(dice), append(mode, e.ID, e.Number, e.Prev)...).Scan(&s.Version)
	return s, err
}

// Applied reads all writes that the register remembers, and what it holds. They
// are read past all fences, by a superuser.
func (r Register) Applied(ctx context.Context, conn *pgx.Conn) (all []history.Entry, now history.State, err error) {
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT version, id, number, prev FROM written_%s ORDER BY version", r.Table))
	if err != nil {
		return nil, now, err
	}
	all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e history.Entry, err error) {
		err = row.Scan(&e.Version, &e.ID, &e.Number, &e.Prev)
		return e, err
	})
	if err != nil {
		return nil, now, err
	}
	now, err = r.read(ctx, conn)
	return all, now, err
}

// Protect is the SQL that makes the tables refuse by themselves what is not under
// a current token of resource.
func (r Register) Protect(resource string) string {
	return fmt.Sprintf("SELECT fence.protect('register_%[1]s', '%[2]s'); SELECT fence.protect('written_%[1]s', '%[2]s')", r.Table, resource)
}
