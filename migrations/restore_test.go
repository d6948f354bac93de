package migrations_test

import (
	"fmt"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/migrations"
)

// dump returns the database as pg_dump writes it, and false if the pg_dump of
// this machine is too old for the server.
func (d *database) dump(t *testing.T, args ...string) (sql string, ok bool) {
	t.Helper()
	path, err := osexec.LookPath("pg_dump")
	if err != nil {
		t.Fatalf("%v (make servers installs it)", err)
	}
	version, err := osexec.CommandContext(t.Context(), path, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	major, err := strconv.Atoi(strings.Split(strings.Fields(string(version))[2], ".")[0])
	if err != nil {
		t.Fatal(err)
	}
	if major < d.server.Major() {
		t.Logf("pg_dump %d cannot dump PostgreSQL %d", major, d.server.Major())
		return "", false
	}
	out, err := osexec.CommandContext(t.Context(), path, append(args, d.url)...).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	return string(out), true
}

// pg_dump | psql into a new database: what was stale there is stale here, no
// ticket of there passes here, and claims go on from the mark.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.protected(t)
		current := claim(t, s.next, s.r.writer(34))
		adopted := s.r + "-adopted"
		claim(t, s.next, adopted.writer(33))
		exec(t, s.next, "select fence.adopt($1, 'j')", string(adopted))
		sql, ok := d.dump(t)
		if !ok {
			return
		}
		copied := &database{url: d.server.Database(t), server: d.server}
		if out, err := psql(t, copied.url, "", sql, "--set", "ON_ERROR_STOP=1"); err != nil {
			t.Fatalf("restore: %v\n%s", err, out)
		}
		conn := copied.open(t)
		if state, err := migrations.Status(t.Context(), copied.url); err != nil || state.Installed != migrations.Version || state.SelfTest != "ok" {
			t.Errorf("status is %+v, %v", state, err)
		}
		for _, f := range forms {
			for _, tk := range []ticket{s.ticket, current} {
				if err := f.check(t.Context(), conn, s.r.writer(33), tk); err == nil {
					t.Errorf("a stale token passes by %s", f.name)
				}
			}
		}
		exec(t, conn, "select fence.check($1)", s.r.writer(34))
		fails(t, conn, "TK003", "select fence.claim($1)", adopted.writer(99))
		fails(t, conn, "TK003", "select fence.adopt($1, 'i')", string(adopted))
		exec(t, conn, fmt.Sprintf("set fence.token = '%s'", s.r.writer(33)))
		fails(t, conn, "TK001", "insert into "+s.table+" values (1)")
		exec(t, conn, fmt.Sprintf("set fence.token = '%s'", s.r.writer(34)))
		exec(t, conn, "insert into "+s.table+" values (1)")
		fails(t, conn, "TK007", "truncate fence.marks")
		if err := migrations.Up(t.Context(), copied.url, migrations.Config{}); err != nil {
			t.Fatal(describe(err))
		}
		// From here on the two go separate ways.
		claim(t, conn, s.r.writer(35))
		claim(t, conn, resource("new").writer(1))
		exec(t, s.next, "select fence.check($1)", s.r.writer(34))
		fails(t, conn, "TK001", "select fence.check($1)", s.r.writer(34))
	})
}

// A dump without the sequences' values, which is the one that no claim can
// disturb: the next claim gives each a new one.
func TestDumpWithoutSequences(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		sql, ok := d.dump(t, "--exclude-table-data=fence.s_*")
		if !ok {
			return
		}
		copied := &database{url: d.server.Database(t), server: d.server}
		if out, err := psql(t, copied.url, "", sql, "--set", "ON_ERROR_STOP=1"); err != nil {
			t.Fatalf("restore: %v\n%s", err, out)
		}
		conn := copied.open(t)
		fails(t, conn, "TK004", "select fence.check($1)", s.r.writer(33))
		fails(t, conn, "TK001", "select fence.claim($1)", s.r.writer(32))
		claim(t, conn, s.r.writer(33))
		exec(t, conn, "select fence.check($1)", s.r.writer(33))
		fails(t, conn, "TK001", "select fence.check($1)", s.r.writer(32))
	})
}

// The marks alone, without their sequences, as a dump of tables only has them,
// or of a moment before: nobody passes until somebody claims.
func TestRestoreOfMarksAlone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		from, to := d.stage(t), install(t, d.server)
		conn := to.open(t)
		row := query[string](t, from.next, `select format('insert into fence.marks (resource, id, issuer, writer, holder, epoch, since) overriding system value
			values (%L, %L, %L, %L, %L, %L, %L)', resource, id, issuer, writer, holder, epoch, since) from fence.marks where resource = $1`, string(from.r))
		exec(t, conn, row)
		for _, f := range forms[1:] {
			mustBe(t, f.check(t.Context(), conn, from.r.writer(32), ticket{}), "TK001", f.name)
			mustBe(t, f.check(t.Context(), conn, from.r.writer(33), ticket{}), "TK004", f.name)
		}
		fails(t, conn, "TK001", "select fence.claim($1)", from.r.writer(32))
		tk := claim(t, conn, from.r.writer(33))
		if tk.epoch == from.ticket.epoch {
			t.Error("the epoch is the one of before")
		}
		for _, f := range forms {
			if err := f.check(t.Context(), conn, from.r.writer(33), tk); err != nil {
				t.Errorf("the current holder is refused (I3): %v", describe(err))
			}
		}
	})
}

// A reader's mark that was restored without its sequence: two readers that
// mend it at once do not get in each other's way.
func TestReadersMendAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		claim(t, s.next, s.r.reader(40))
		exec(t, s.next, "update fence.marks set epoch = 7 where resource = $1", string(s.r))
		exec(t, s.next, "begin; select pg_advisory_xact_lock(fence.claim_key('"+string(s.r)+"'))")
		one, two := d.open(t), d.open(t)
		calls := []*call{start(t, one, "select fence.claim($1)", s.r.reader(41)), start(t, two, "select fence.claim($1)", s.r.reader(42))}
		d.blocked(t, one)
		d.blocked(t, two)
		exec(t, s.next, "commit")
		for _, c := range calls {
			if err := c.end(t); err != nil {
				t.Error(describe(err))
			}
		}
		exec(t, one, "select fence.check($1)", s.r.reader(41))
		exec(t, one, "select fence.check($1)", s.r.reader(42))
	})
}
