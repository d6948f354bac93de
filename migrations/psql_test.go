package migrations_test

import (
	"bytes"
	"context"
	"net/url"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
)

// psql runs a script through the real psql, as anybody would, with fence.token
// from PGOPTIONS unless it is empty. It returns what psql printed.
func psql(t *testing.T, databaseURL, token, script string, args ...string) (out string, err error) {
	t.Helper()
	path, err := osexec.LookPath("psql")
	if err != nil {
		t.Fatalf("%v (make servers installs it)", err)
	}
	args = append([]string{"--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "VERBOSITY=sqlstate", databaseURL}, args...)
	cmd := osexec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=30")
	if token != "" {
		cmd.Env = append(cmd.Env, "PGOPTIONS=-c fence.token="+token)
	}
	cmd.Stdin = strings.NewReader(script)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err = cmd.Run()
	return both.String(), err
}

// statement is one write to a protected table, in the schema of writeSchema.
type statement struct{ name, sql string }

// writeSchema makes tables of every shape and protects them all but those that
// a protected one hangs on.
const writeSchema = `
	create table plain (n int primary key, v int default 0);
	create table parent (n int primary key);
	create table child (n int primary key references parent on delete cascade on update cascade);
	create table tender (n int primary key, p int references parent on delete set null);
	create table measure (n int, v int default 0) partition by range (n);
	create table measure_low partition of measure for values from (0) to (100);
	create table measure_high partition of measure for values from (100) to (200);
	create table animal (n int);
	create table cat (lives int) inherits (animal);
	create view window_on_plain as select n, v from plain;
	create table ruled (n int);
	create rule also as on insert to ruled do also insert into plain values (new.n);
	create table tapped (n int);
	create function tap() returns trigger language plpgsql as 'begin insert into plain values (new.n); return new; end';
	create trigger tap after insert on tapped for each row execute function tap();
	create constraint trigger tap_late after delete on tapped deferrable initially deferred for each row execute function tap_late();
	insert into plain values (1), (2), (3), (4), (5);
	insert into parent values (1), (2), (3);
	insert into child values (1), (2);
	insert into tender values (3, 3);
	insert into measure values (1), (101);
	insert into animal values (1);
	insert into cat values (2, 9);
	insert into tapped values (77);`

// writes are one of each kind. With a current token they all succeed, in order.
var writes = []statement{
	{"insert", "insert into plain values (10)"},
	{"upsert", "insert into plain values (10) on conflict (n) do update set v = 1"},
	{"insert nothing", "insert into plain select 1 where false"},
	{"update", "update plain set v = 2 where n = 10"},
	{"update no row", "update plain set v = 2 where n = 999"},
	{"delete no row", "delete from plain where n = 999"},
	{"delete", "delete from plain where n = 10"},
	{"merge", "merge into plain p using (select 1 as n) s on p.n = s.n when matched then update set v = 3"},
	{"merge insert", "merge into plain p using (select 11 as n) s on p.n = s.n when not matched then insert values (s.n)"},
	{"data-modifying CTE", "with w as (delete from plain where n = 20 returning n) select count(*) from w"},
	{"data-modifying CTE, unreferenced", "with w as (delete from plain where n = 21) select 1"},
	{"function", "do $$ begin update plain set v = 4 where n = 1; end $$"},
	{"prepared", "prepare p as update plain set v = 5 where n = 1; execute p"},
	{"view", "update window_on_plain set v = 6 where n = 1"},
	{"rule", "insert into ruled values (30)"},
	{"trigger of another table", "insert into tapped values (31)"},
	{"deferred trigger of another table", "delete from tapped where n = 77"},
	{"foreign key, delete cascade", "delete from parent where n = 1"},
	{"foreign key, update cascade", "update parent set n = 20 where n = 2"},
	{"foreign key, set null", "delete from parent where n = 3"},
	{"partitioned", "insert into measure values (2)"},
	{"partition", "insert into measure_low values (3)"},
	{"moves to another partition", "update measure set n = 102 where n = 2"},
	{"partition, update", "update measure_high set v = 1"},
	{"parent", "update animal set n = 5 where n = 2"},
	{"child", "insert into cat values (6, 9)"},
	{"truncate partition", "truncate measure_low"},
	{"truncate child by parent", "truncate animal"},
	{"truncate cascade", "truncate parent cascade"},
	{"truncate", "truncate plain"},
}

// copies are writes after which psql does not say :SQLSTATE.
var copies = []statement{
	{"copy from the client", "copy plain (n) from stdin;\n20\n\\.\n"},
	{"copy from a program of the client", `\copy plain (n) from program 'echo 21'`},
}

// protectWrites makes the tables and protects them for r.
func (d *database) protectWrites(t *testing.T, r resource) {
	t.Helper()
	conn := d.open(t)
	defer conn.Close(context.Background())
	exec(t, conn, "create function tap_late() returns trigger language plpgsql as 'begin insert into plain values (old.n + 100); return old; end'")
	exec(t, conn, writeSchema)
	for _, table := range []string{"plain", "child", "tender", "measure", "animal"} {
		exec(t, conn, "select fence.protect($1, $2)", table, string(r))
	}
}

// states returns the SQLSTATE of each write.
func states(t *testing.T, databaseURL, token, prelude string) map[string]string {
	t.Helper()
	var script strings.Builder
	script.WriteString(prelude)
	for _, w := range writes {
		script.WriteString(w.sql + ";\n\\echo state " + url.QueryEscape(w.name) + " :SQLSTATE\n")
	}
	out, err := psql(t, databaseURL, token, script.String())
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	got := map[string]string{}
	for _, c := range copies {
		out, err := psql(t, databaseURL, token, prelude+c.sql, "--set", "ON_ERROR_STOP=1")
		got[c.name] = "00000"
		if err != nil {
			_, state, _ := strings.Cut(out, "ERROR:  ")
			got[c.name] = strings.TrimSpace(state)
		}
	}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "state" {
			name, _ := url.QueryUnescape(fields[1])
			got[name] = fields[2]
		}
	}
	return got
}
