package migrations_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// What protected tables do not see. docs/guarantees.md lists it; each row here
// shows that the list is true, so that nobody relies on more. Everything runs
// with no token at all, or a stale one.
func TestBypasses(t *testing.T) {
	t.Parallel()
	bypasses := map[string]string{
		"a token anybody may copy": `set fence.token = '%[2]s'; insert into %[1]s values (1)`,
		"a forged memo": `begin; select set_config('fence.token', '%[3]s', true),
			set_config('fence.checked', '%[4]s=%[3]s@' || transaction_timestamp(), true); insert into %[1]s values (1); commit`,
		"its owner disables the trigger":   `alter table %[1]s disable trigger "!fence"; insert into %[1]s values (1)`,
		"its owner drops the trigger":      `select fence.unprotect('%[1]s'); insert into %[1]s values (1)`,
		"a table rewritten by DDL":         `alter table %[1]s add m int default 1; alter table %[1]s alter n type int using 1`,
		"a table dropped or renamed":       `alter table %[1]s rename to %[1]s_old; create table %[1]s (n int); insert into %[1]s values (1)`,
		"a partition attached afterwards":  `create table %[1]s_p () inherits (%[1]s); insert into %[1]s_p values (1)`,
		"a parent attached afterwards":     `create table %[1]s_up (n int); alter table %[1]s inherit %[1]s_up; update %[1]s_up set n = 1`,
		"row locks":                        `begin; select from %[1]s for update; commit`,
		"sequences":                        `create sequence %[1]s_seq; select nextval('%[1]s_seq')`,
		"large objects":                    `select lo_create(0)`,
		"a materialized view of the table": `create materialized view %[1]s_m as select * from %[1]s; refresh materialized view %[1]s_m`,
	}
	each(t, func(t *testing.T, d *database) {
		for name, sql := range bypasses {
			s := d.stage(t)
			s.write(t, s.old, 0)
			s.protected(t)
			claim(t, s.next, s.r.writer(34))
			conn := d.open(t)
			if _, err := conn.Exec(t.Context(), fmt.Sprintf(sql+" -- %[1]s %[2]s %[3]s %[4]s", s.table, s.r.writer(34), s.r.writer(33), s.r)); err != nil {
				t.Errorf("%s: refused after all, so say so in the guarantees: %v", name, describe(err))
			}
		}
	})
}

// Logical replication applies rows with no token: statement triggers do not
// run there.
func TestBypassByLogicalReplication(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		d := install(t, testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major(), Settings: map[string]string{"wal_level": "logical"}}))
		from := d.open(t)
		exec(t, from, "create table t (n int); create publication p for table t")
		exec(t, from, "select pg_create_logical_replication_slot('s', 'pgoutput')")
		other := install(t, d.server)
		to := other.open(t)
		exec(t, to, "create table t (n int); select fence.protect('t', 'r')")
		fails(t, to, "TK005", "insert into t values (1)")
		u, err := url.Parse(d.url)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		exec(t, to, fmt.Sprintf("create subscription s connection 'host=%s port=%s dbname=%s user=%s password=%s' publication p with (create_slot = false, copy_data = false)",
			u.Hostname(), u.Port(), u.Path[1:], u.User.Username(), password))
		exec(t, from, "insert into t values (1)")
		other.until(t, "select exists (select from t)")
	})
}

// Dropping the schema drops the triggers: whoever migrates down knows.
func TestBypassByDown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.protected(t)
		fails(t, s.old, "TK005", "insert into "+s.table+" values (1)")
		if err := migrations.Down(t.Context(), d.url, migrations.Config{}); err != nil {
			t.Fatal(err)
		}
		s.write(t, s.old, 1)
	})
}
