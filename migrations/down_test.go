package migrations_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fenceproxy/fenceproxy/migrations"
)

// Each file's way back leaves the schema of the version before, marks
// included, and the way up works again.
func TestDownStepByStep(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *database) {
		var at [migrations.Version + 1][]string
		for v := 1; v <= migrations.Version; v++ {
			byPsql(t, d.url, fileName(t, v, "up"))
			at[v] = d.snapshot(t)
		}
		conn := d.open(t)
		exec(t, conn, "create table t (n int); select fence.protect('t', 'r')")
		claim(t, conn, resource("r").writer(33))
		for v := migrations.Version; v > 1; v-- {
			byPsql(t, d.url, fileName(t, v, "down"))
			byPsql(t, d.url, fileName(t, v, "down"))
			if diff := cmp.Diff(at[v-1], d.snapshot(t)); diff != "" {
				t.Errorf("down from %d: the schema differs: %s", v, diff)
			}
		}
		exec(t, conn, "insert into t values (1)") // is no longer protected
		if err := migrations.Up(t.Context(), d.url, migrations.Config{}); err != nil {
			t.Fatal(err)
		}
		if m := markOf(t, conn, "r"); m.Writer != 33 {
			t.Errorf("mark is %+v", m)
		}
		exec(t, conn, "select fence.check($1)", resource("r").writer(33))
	})
}

func TestDown(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *database) {
		for range 2 {
			if err := migrations.Up(t.Context(), d.url, migrations.Config{}); err != nil {
				t.Fatal(err)
			}
			s := d.stage(t)
			s.protected(t)
			if err := migrations.Down(t.Context(), d.url, migrations.Config{}); err != nil {
				t.Fatal(describe(err))
			}
			s.write(t, s.old, 1)
			if got := query[int](t, s.old, "select count(*) from pg_namespace where nspname = 'fence'"); got != 0 {
				t.Error("the schema is still there")
			}
			if state, err := migrations.Status(t.Context(), d.url); err != nil || state.Installed != 0 {
				t.Errorf("status is %+v, %v", state, err)
			}
			if _, err := s.old.Exec(t.Context(), fastCheck, s.ticket.seq, s.ticket.epoch, s.r.writer(33)); err == nil {
				t.Error("a ticket of before passes")
			}
		}
		if err := migrations.Down(t.Context(), d.url, migrations.Config{}); err != nil {
			t.Errorf("down, where nothing is: %v", describe(err))
		}
	})
}
