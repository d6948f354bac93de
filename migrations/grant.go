package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// grantSQL is one transaction, and one at a time: the server refuses two that
// grant the same to somebody.
const grantSQL = `
	SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('fence.grant', 7203410));
	SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), true)
	  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';
	GRANT EXECUTE ON FUNCTION fence.claim(text, interval, boolean), fence.evict(text, bigint), fence.blockers(text) TO :role;
	GRANT SELECT ON fence.marks, fence.adoptions TO :role`

// grantable reports, before anything is done, what would keep grant from naming roles.
// PUBLIC is none: one claim of 2^63−1 would poison a resource for good.
func grantable(ctx context.Context, tx *sql.Tx, roles []string) error {
	for _, role := range roles {
		if strings.EqualFold(role, "public") {
			return errors.New("grant to PUBLIC: whoever may claim can lock all others out of a resource, so name the roles that need it")
		}
		var there bool
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)", role).Scan(&there)
		if err != nil {
			return fmt.Errorf("look for role %q: %w", role, err)
		}
		if !there {
			return fmt.Errorf("grant to role %q: there is none of that name; create it first. Nothing was changed", role)
		}
	}
	return nil
}

// grant lets roles claim and evict.
func grant(ctx context.Context, db *sql.DB, roles []string) error {
	for _, role := range roles {
		name := pgx.Identifier{role}.Sanitize()
		if _, err := db.ExecContext(ctx, strings.ReplaceAll(grantSQL, ":role", name)); err != nil {
			return fmt.Errorf("grant to role %s: %w", name, err)
		}
	}
	return nil
}
