package pgstore

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// The text guard and PostgreSQL agree on what ends a transaction.
func TestTextsEndTransactions(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		fails := map[string]bool{"select $1$;commit;$1$": true, "commit prepared 'x'": true}
		for _, sql := range []string{
			"select 1", "commit", "select ';commit;'", "select 1; commit", "select $$;commit;$$; select 2", "select $a$;commit;$$;$a$", "/* /* ;commit; */ ;commit; */ select 1",
			"select e'\\';commit;--'", "select 'a\\'; commit; --'", "select E'a'\n'\\';commit;--'", "select E'a' --x\n'\\';commit;--'", "-- ;commit;\nselect 1", "select 1 --\n;commit",
			"savepoint a; rollback to a", "savepoint a; rollback work to savepoint a", "rollback", "rollback and no chain", "abort", "end", "select \";commit;\" from (select 1 as \";commit;\") s",
			"create function f() returns int begin atomic select case when true then 1 end; select 2; end", "create procedure p() begin atomic select 1 as end; end; commit",
			"create procedure q() begin atomic end; select 1", "create or replace procedure q() begin atomic select 1 case; end; commit",
			"create table u (a int); create rule r as on insert to u do also (insert into t values (900); delete from t where id = 900); select 1",
			"select b'1'; select x'1f'; select n'\\'; commit; --'", "select U&'\\0041'; commit", "select U&\"a\" from (select 1 a) s; commit", "select 1 /**/;/**/commit", ";;;commit;;;", "do $$ begin perform 1; end $$",
			"select $1$;commit;$1$", "select a$$ from (select 1 as a$$) s; commit", "set standard_conforming_strings = off; select 1",
			"prepare x as select 1; execute x; deallocate x", "commit prepared 'x'", "start transaction; commit",
		} {
			guard, server, err := whoEnds(t, e, sql)
			switch {
			case err != nil && fails[sql]: // PostgreSQL has run none of it, or the transaction has failed
			case err != nil || fails[sql]:
				t.Errorf("%q: %v", sql, err)
			case guard != server:
				t.Errorf("%q: the guard says that it ends the transaction: %v, PostgreSQL: %v", sql, guard, server)
			}
		}
	})
}

func whoEnds(t *testing.T, e *env, sql string) (guard, server bool, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), e.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	guard = (&fencedTx{conn: conn, session: sessionOf(conn)}).admitText(t.Context(), sql) != nil
	before := ask(t, conn, "begin; select pg_current_xact_id()")
	if _, err := simple(t.Context(), conn.PgConn(), sql, nil); err != nil {
		return false, false, err
	}
	return guard, ask(t, conn, "select pg_current_xact_id()") != before, nil
}

func ask(t *testing.T, conn *pgx.Conn, sql string) (s string) {
	t.Helper()
	_, err := simple(t.Context(), conn.PgConn(), sql, func(_ int, row [][]byte) error {
		if len(row) > 0 {
			s = string(row[0])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
