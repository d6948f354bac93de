package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// status is fence.status as "table resource protected".
func status(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "select format('%s %s %s', relation, resource, protected) from fence.status order by relation::text collate \"C\"")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(describe(err))
	}
	return lines
}

func wantStatus(t *testing.T, conn *pgx.Conn, when string, want ...string) {
	t.Helper()
	if got := status(t, conn); !slices.Equal(got, want) {
		t.Errorf("%s: status is %q, want %q", when, got, want)
	}
}

// What is attached later shows in fence.status until protect runs again.
func TestStatusShowsWhatIsNotProtected(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		_, url := d.login(t, "")
		conn, reader := d.open(t), connect(t, url)
		wantStatus(t, conn, "at first")
		exec(t, conn, `create table m (n int) partition by range (n); create table m1 partition of m for values from (0) to (9) partition by list (n);
			create table m11 partition of m1 for values in (1); create table a (n int); create table b () inherits (a)`)
		exec(t, conn, "select fence.protect('m', 'r'), fence.protect('a', 'q')")
		exec(t, conn, "select fence.protect('m', 'r')") // again
		wantStatus(t, reader, "protected", "a q t", "b q t", "m r t", "m1 r t", "m11 r t")
		exec(t, conn, "create table m2 partition of m for values from (10) to (19); create table c () inherits (b)")
		wantStatus(t, reader, "attached", "a q t", "b q t", "c q f", "m r t", "m1 r t", "m11 r t", "m2 r f")
		fails(t, conn, "TK005", "insert into m values (11)")
		exec(t, conn, "insert into m2 values (11)") // the hole that status is for
		exec(t, conn, "select fence.protect('m2', 'r'), fence.protect('a', 'q')")
		fails(t, conn, "TK005", "insert into m2 values (11)")
		wantStatus(t, conn, "protected again", "a q t", "b q t", "c q t", "m r t", "m1 r t", "m11 r t", "m2 r t")
		for _, how := range []string{"disable trigger \"!fence\"", "enable trigger \"!fence_truncate\"", "enable replica trigger \"!fence\""} {
			exec(t, conn, "alter table c "+how)
			wantStatus(t, reader, how, "a q t", "b q t", "c q f", "m r t", "m1 r t", "m11 r t", "m2 r t")
			exec(t, conn, "select fence.protect('c', 'q')")
		}
		exec(t, conn, "alter table m detach partition m1")
		exec(t, conn, "select fence.unprotect('m'), fence.unprotect('a')")
		wantStatus(t, reader, "unprotected", "m1 r t", "m11 r t")
		exec(t, conn, "drop table m1")
		wantStatus(t, reader, "dropped")
		exec(t, conn, "select fence.unprotect('m')")
	})
}

// A bug that was here: a partition or child can be written through a parent
// that has no trigger, and fence.status called it protected.
func TestProtectRefusesChildOfUnprotected(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		exec(t, conn, `create table m (n int) partition by range (n); create table m1 partition of m for values from (0) to (9);
			create table a (n int); create table z (n int); create table b () inherits (a); create table c () inherits (b, z)`)
		for _, table := range []string{"m1", "b", "c", "a"} {
			fails(t, conn, "TK007", "select fence.protect($1, 'r')", table)
		}
		wantStatus(t, conn, "refused")
		exec(t, conn, "select fence.protect('m', 'r')")
		fails(t, conn, "42710", "select fence.protect('m1', 'q')")
		exec(t, conn, "create table late (n int); select fence.protect('late', 'r')")
		exec(t, conn, "alter table late inherit z")
		wantStatus(t, conn, "attached to an unprotected one", "late r t", "m r t", "m1 r t", "z r f")
	})
}

func TestProtectRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		exec(t, conn, "create table t (n int); create view v as select * from t; create materialized view w as select * from t; create sequence s")
		for sql, state := range map[string]string{
			"fence.protect('v', 'r')":                                    "TK007",
			"fence.protect('w', 'r')":                                    "TK007",
			"fence.protect('s', 'r')":                                    "TK007",
			"fence.protect('t', '')":                                     "TK006",
			"fence.protect('t', null)":                                   "TK006",
			"fence.protect('t', repeat('r', 256))":                       "TK006",
			"fence.protect('t', E'a\\nb')":                               "TK006",
			"fence.protect('t', U&'\\0085')":                             "TK006",
			"fence.protect('nowhere', 'r')":                              "42P01",
			"fence.protect('pg_catalog.pg_class', 'r')":                  "42501",
			"fence.unprotect('nowhere')":                                 "42P01",
			"fence.protect('t', 'r'), fence.protect('t', 'q')":           "42710",
			"fence.protect('t', 'r'), fence.protect('t', 'R')":           "42710",
			"fence.protect('t', 'r'), fence.protect('t', 'r')":           "",
			"fence.unprotect('t'), fence.protect('t', 'q')":              "",
			"fence.unprotect('t'), fence.protect('t', repeat('r', 255))": "",
		} {
			_, err := conn.Exec(t.Context(), "begin; select "+sql+"; commit")
			if got := stateOf(err); got != state {
				t.Errorf("%s: %v, want %q", sql, describe(err), state)
			}
			exec(t, conn, "rollback")
			exec(t, conn, "select fence.unprotect('t')")
		}
	})
}

// Names that need quoting, of tables and of resources, all the way round.
func TestProtectAwkwardNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		exec(t, conn, `create schema "Odd ""one"""`)
		for i, name := range []resource{
			`it's`, `"q"`, `back\slash`, `\000`, `100% %s %I`, `☃/ö`, `a,b`, `$$`, `?x=1&y`, ` r `, `r--`, `/*`, `{r}`, `NULL`,
		} {
			table := fmt.Sprintf(`"Odd ""one"""."T '%d"`, i)
			exec(t, conn, "create table "+table+" (n int)")
			exec(t, conn, "select fence.protect($1::text::regclass, $2)", table, string(name))
			exec(t, conn, "select fence.protect($1::text::regclass, $2)", table, string(name))
			fails(t, conn, "TK005", "insert into "+table+" values (1)")
			claim(t, conn, name.writer(34))
			exec(t, conn, "select set_config('fence.token', $1, false)", (name + "x").writer(34))
			fails(t, conn, "TK005", "insert into "+table+" values (1)")
			exec(t, conn, "select set_config('fence.token', $1, false)", name.writer(34))
			exec(t, conn, "insert into "+table+" values (1)")
			exec(t, conn, "reset fence.token")
			if got := query[string](t, conn, "select resource from fence.status where relation = $1::text::regclass and protected", table); got != string(name) {
				t.Errorf("status says %q, want %q", got, name)
			}
		}
	})
}

// Only the owner of a table may protect and unprotect it.
func TestProtectNeedsOwner(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		role, url := d.login(t, "")
		exec(t, conn, "create table theirs (n int); grant all on theirs to public; create table mine (n int); alter table mine owner to "+role)
		own := connect(t, url)
		exec(t, conn, "select fence.protect('theirs', 'r')")
		fails(t, own, "42501", "select fence.unprotect('theirs')")
		fails(t, own, "42501", "drop trigger \"!fence\" on theirs")
		fails(t, own, "42501", "alter table theirs disable trigger all")
		exec(t, own, "select fence.protect('mine', 'r')")
		fails(t, own, "TK005", "insert into mine values (1)")
		claim(t, conn, resource("r").writer(34))
		exec(t, own, "select set_config('fence.token', $1, false)", resource("r").writer(34))
		exec(t, own, "insert into mine values (1); insert into theirs values (1); truncate mine")
		exec(t, own, "select fence.unprotect('mine')")
		_ = own.Close(context.Background())
	})
}
