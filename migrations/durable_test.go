package migrations_test

import (
	"fmt"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// I6: kill -9 of the whole server the moment a claim has returned, and the mark
// is there after recovery: of a writer, a first and a further reader and an
// adoption, whatever the session's default says about commits.
func TestClaimSurvivesCrash(t *testing.T) {
	t.Parallel()
	// The WAL writer sleeps as long as it may, so that only the claim's own commit can have written the WAL.
	lazy := map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
	minimal := map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_level": "minimal", "max_wal_senders": "0"}
	for name, settings := range map[string]map[string]string{
		"defaults": nil, "commits asynchronous": lazy, "commits asynchronous, wal_level minimal": minimal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
				t.Parallel()
				crashes(t, testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major(), Settings: settings}))
			})
		})
	}
}

func crashes(t *testing.T, s *testenv.PostgresServer) {
	t.Helper()
	d := install(t, s)
	r := resource("r")
	acts := []struct {
		name, sql string
		current   string
		stale     []string
	}{
		{"first claim", fmt.Sprintf("select fence.claim('%s')", r.writer(33)), r.writer(33), []string{r.writer(32)}},
		{"writer", fmt.Sprintf("select fence.claim('%s')", r.writer(34)), r.writer(34), []string{r.writer(33)}},
		{"first reader", fmt.Sprintf("select fence.claim('%s')", r.reader(35)), r.reader(35), []string{r.writer(34)}},
		{"further reader", fmt.Sprintf("select fence.claim('%s')", r.reader(36)), r.reader(36), []string{r.writer(34), r.writer(35)}},
		{"writer after readers", fmt.Sprintf("select fence.claim('%s')", r.writer(37)), r.writer(37), []string{r.reader(36)}},
		{"adoption", "select fence.adopt('r', 'j')", "", []string{r.writer(37), r.writer(99)}},
	}
	for _, act := range acts {
		conn := connect(t, d.url)
		exec(t, conn, act.sql)
		s.Kill(t)
		s.Restart(t)
		conn = connect(t, d.url)
		if act.current != "" {
			if _, err := conn.Exec(t.Context(), "select fence.check($1)", act.current); err != nil {
				t.Fatalf("%s: %v", act.name, describe(err))
			}
		} else if m := markOf(t, conn, r); m.Generation != 1 || m.Issuer != "j" {
			t.Fatalf("%s: mark is %+v", act.name, m)
		}
		for _, stale := range act.stale {
			_, err := conn.Exec(t.Context(), "select fence.check($1)", stale)
			if state := stateOf(err); state != "TK001" && state != "TK002" && state != "TK003" {
				t.Errorf("%s: stale %s: %v", act.name, stale, describe(err))
			}
		}
		if !query[bool](t, conn, "select fence.in_step(m) from fence.marks m where resource = 'r'") {
			t.Errorf("%s: row and sequence disagree", act.name)
		}
	}
}

// A claim that had not returned is there whole or not at all: the old holder
// goes on, and its ticket is as good as before.
func TestOpenClaimIsGoneAfterCrash(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		private := testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major()})
		d := install(t, private)
		st := d.stage(t)
		exec(t, st.next, "begin")
		lost := claim(t, st.next, st.r.writer(34))
		exec(t, d.open(t), "checkpoint") // what it did is on disk
		private.Kill(t)
		private.Restart(t)
		conn := d.open(t)
		for _, f := range forms {
			if err := f.check(t.Context(), conn, st.r.writer(33), st.ticket); err != nil {
				t.Errorf("the current holder is refused (I3): %v", describe(err))
			}
			mustBe(t, f.check(t.Context(), conn, st.r.writer(34), lost), "TK004", "check by "+f.name)
		}
		claim(t, conn, st.r.writer(34))
	})
}

// I2: a write whose check passed and whose commit was acknowledged is there,
// however the claim that waited for it ended.
func TestEvictedWriteIsAllOrNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		for range 20 {
			s := d.cast(t)
			exec(t, s.old, "begin")
			s.write(t, s.old, 33)
			exec(t, s.old, "select fence.check($1)", s.r.writer(33))
			claiming := start(t, s.next, "select fence.claim($1, '0', true)", s.r.writer(34))
			tag, err := s.old.Exec(t.Context(), "commit")
			if err := claiming.end(t); err != nil {
				t.Fatal(describe(err))
			}
			rows := s.rows(t, s.next, 33)
			if acknowledged := err == nil && tag.String() == "COMMIT"; acknowledged && rows != 1 {
				t.Errorf("acknowledged, and %d rows", rows)
			}
		}
	})
}

// A bug that was here: a claim whose COMMIT was given up while it waited for a
// synchronous standby was made again without one (I1, I6).
func TestClaimAgainWaitsForStandby(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		d := install(t, testenv.StartPostgres(t, testenv.PostgresConfig{Major: s.Major()}))
		admin, other, again := d.open(t), d.open(t), d.open(t)
		token := resource("r").writer(33)
		first := claim(t, admin, token)
		before := query[string](t, admin, "select pg_current_wal_insert_lsn()::text")
		if got := claim(t, admin, token); got != first || !query[bool](t, admin, "select pg_current_wal_insert_lsn() - $1::text::pg_lsn < 1000", before) {
			t.Errorf("without a standby: %v, want %v", got, first)
		}
		exec(t, admin, "alter system set synchronous_standby_names = 'nobody'")
		exec(t, admin, "select pg_reload_conf()")
		waiting := func(n int) {
			t.Helper()
			d.until(t, fmt.Sprintf("select count(*) = %d from pg_stat_activity where wait_event = 'SyncRep'", n))
		}
		// The checkpointer tells the others of it, when it has seen it.
		write := start(t, other, "do $$ begin for i in 1..3000 loop perform pg_logical_emit_message(true, '', ''), pg_sleep(0.001); commit; end loop; end $$")
		waiting(1)
		claimed := start(t, again, "select fence.claim($1)", token)
		waiting(2)
		exec(t, admin, "alter system reset synchronous_standby_names")
		exec(t, admin, "select pg_reload_conf()")
		for _, c := range []*call{write, claimed} {
			if err := c.end(t); err != nil {
				t.Error(describe(err))
			}
		}
	})
}
