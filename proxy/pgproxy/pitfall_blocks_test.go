package pgproxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// TestSpellings: a block is fenced however it is begun and ended.
func TestSpellings(t *testing.T) {
	t.Parallel()
	begins := []string{"BEGIN", ";begin", "/* /* c */ SELECT */ bEgIn -- x\n work;", "START TRANSACTION READ WRITE, ISOLATION LEVEL REPEATABLE READ"}
	ends := []string{"COMMIT", ";end", "/* ROLLBACK; */ commit work;", "-- x\nEND TRANSACTION", "COMMIT AND NO CHAIN", "PREPARE TRANSACTION 'spelled'", "END; BEGIN"}
	var blocks [][2]string
	for _, begin := range begins {
		blocks = append(blocks, [2]string{begin, "COMMIT"})
	}
	for _, end := range ends {
		blocks = append(blocks, [2]string{"BEGIN", end})
	}
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		number := int64(0)
		for _, block := range blocks {
			for _, send := range []func(string) step{query, func(sql string) step { return series(sql) }, func(sql string) step { return append(named("n", sql), executed("n")...) }} {
				number += 2
				c := sc.raw(sc.via(sc.token(number).String()))
				began := c.replay(t, send(block[0]), query(insertOne))
				if began[len(began)-1] != "Z:T" {
					t.Fatalf("%q: %q", block[0], began)
				}
				c.replay(t, step{&pgproto3.Close{ObjectType: 'S', Name: "n"}, &pgproto3.Close{ObjectType: 'P', Name: "n"}, &pgproto3.Sync{}})
				sc.claim(sc.token(number + 1))
				got := c.replay(t, send(block[1]))
				if several := "E:ERROR:42601:cannot insert multiple commands"; !strings.HasPrefix(got[0], several) {
					wantRefusal(t, slices.DeleteFunc(got, func(w string) bool { return w == "Z:T" }), "TK001")
				}
				c.conn.Close()
			}
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestSavepointsKeepTheFence: what goes in front of a block's first statement is
// not undone with a savepoint (pgdog #545, multigres #804: and ROLLBACK TO is
// let through in a failed block).
func TestSavepointsKeepTheFence(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		savepoint := []step{query("BEGIN"), query("SAVEPOINT s"), query("SELECT 1"), query("ROLLBACK TO s")}
		failed := []step{query("BEGIN"), series("SAVEPOINT s"), query("SELECT 1/0"), series("ROLLBACK TO s")}
		for _, steps := range [][]step{savepoint, failed} {
			c := sc.raw(sc.via(""))
			c.replay(t, steps...)
			if got := c.replay(t, query(insertOne)); !strings.HasPrefix(got[0], "E:ERROR:25006") {
				t.Errorf("without a token: %q", got)
			}
			c.conn.Close()

			holder := sc.connect(sc.via(sc.token(1).String()))
			present := func() (n int) {
				pid := holder.PgConn().PID()
				if err := sc.connect(sc.url).QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = $1", pid).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			sc.exec(holder, "BEGIN")
			sc.exec(holder, "SAVEPOINT s")
			sc.exec(holder, "SELECT 1")
			sc.exec(holder, "ROLLBACK TO s")
			if present() != 1 {
				t.Error("an eviction would not find the block any more")
			}
			sc.exec(holder, "SELECT pg_advisory_unlock_all()")
			if present() != 1 {
				t.Error("the client can let go of the block's lock")
			}
			sc.exec(holder, "ROLLBACK")
		}
		c := sc.raw(sc.via(sc.token(1).String()))
		c.replay(t, append(failed, query(insertOne))...)
		sc.claim(sc.token(2))
		wantRefusal(t, c.replay(t, query("COMMIT")), "TK001")
	})
}

// wantRefusal wants one error with that SQLSTATE, and a session that is idle.
func wantRefusal(t *testing.T, got []string, state string) {
	t.Helper()
	failed := 0
	for _, w := range got {
		if strings.HasPrefix(w, "E:") {
			failed++
		}
	}
	if i := slices.IndexFunc(got, func(w string) bool { return strings.HasPrefix(w, "E:ERROR:"+state) }); i < 0 || failed != 1 || got[len(got)-1] != "Z:I" {
		t.Errorf("got %q, want one error with %s and an idle session", got, state)
	}
}

// TestChains: ROLLBACK AND CHAIN begins a block like any other (ProxySQL #5152).
func TestChains(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		chain := []step{query("BEGIN ISOLATION LEVEL SERIALIZABLE"), query(insertOne), query("ROLLBACK AND CHAIN"), query("SHOW transaction_isolation"), query("INSERT INTO t VALUES (2, 'b')")}
		sc.alike(sc.token(1).String(), map[string][]step{
			"by Query":             append(slices.Clone(chain), query("COMMIT")),
			"in a series":          {series("BEGIN", insertOne, "ROLLBACK AND CHAIN", "INSERT INTO t VALUES (2, 'b')", "COMMIT")},
			"of one that failed":   {query("BEGIN"), query("SELECT 1/0"), query("COMMIT AND CHAIN"), query(insertOne), query("COMMIT")},
			"where there is none":  {query("ROLLBACK AND CHAIN"), query("COMMIT AND CHAIN"), query(insertOne)},
			"of a level, then set": {query("BEGIN"), query("ROLLBACK AND CHAIN"), query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), query(insertOne), query("COMMIT")},
		})
		c := sc.raw(sc.via(sc.token(1).String()))
		c.replay(t, chain...)
		sc.claim(sc.token(2))
		wantRefusal(t, c.replay(t, query("COMMIT")), "TK001")
		untokened := func(steps ...step) {
			t.Helper()
			c := sc.raw(sc.via(""))
			defer c.conn.Close()
			if got := strings.Join(c.replay(t, append([]step{query("BEGIN"), query("SELECT 1")}, steps...)...), " "); !strings.Contains(got, "E:ERROR:25006") {
				t.Errorf("without a token: %s", got)
			}
		}
		untokened(query("ROLLBACK AND CHAIN"), query(insertOne))
		untokened(series("ROLLBACK AND CHAIN"), series(insertOne))
		untokened(series("ROLLBACK AND CHAIN", insertOne))
		untokened(query("SELECT 1/0"), series("ROLLBACK AND CHAIN", insertOne))
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestBeforeAnySnapshot: what must be a block's first is (django-pghistory #238,
// porsager/postgres #164), and what must be read-only is left so.
func TestBeforeAnySnapshot(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		exporter := sc.connect(sc.url)
		sc.exec(exporter, "BEGIN ISOLATION LEVEL REPEATABLE READ")
		var snapshot string
		if err := exporter.QueryRow(t.Context(), "SELECT pg_export_snapshot()").Scan(&snapshot); err != nil {
			t.Fatal(err)
		}
		imports := query("SET TRANSACTION SNAPSHOT '" + snapshot + "'")
		scripts := map[string][]step{
			"isolation":           {query("BEGIN"), query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), query("SHOW transaction_isolation"), query("SELECT 1"), query("COMMIT")},
			"isolation, too late": {query("BEGIN"), query("SELECT 1"), query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), query("COMMIT")},
			"what may come first": {
				query("BEGIN"), query("SHOW port"), query("SET LOCAL work_mem = '1MB'"), query("SET TRANSACTION READ ONLY"), query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
				query("SELECT current_setting('transaction_isolation'), current_setting('work_mem')"), query("COMMIT"),
			},
			"snapshot":     {query("BEGIN ISOLATION LEVEL REPEATABLE READ"), imports, query("SELECT count(*) FROM t"), query("COMMIT")},
			"a shorter":    {series("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"), query("SELECT 1"), series("COMMIT")},
			"deferrable":   {query("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"), query("SELECT 1"), query("COMMIT")},
			"by default":   {query("SET default_transaction_isolation = serializable"), query("SELECT 1"), query("SET default_transaction_deferrable = on"), query("SET default_transaction_read_only = on"), query("SELECT 2")},
			"read only":    {query("BEGIN READ ONLY"), query("SELECT 1"), query("SET TRANSACTION READ WRITE"), query("ROLLBACK"), query("BEGIN READ ONLY"), query("SET TRANSACTION READ WRITE"), query("SELECT 1"), query("COMMIT")},
			"locked first": {query("BEGIN"), query("LOCK TABLE t IN SHARE MODE"), query("SELECT 1"), query("COMMIT"), query("LOCK TABLE t"), query("SAVEPOINT s")},
		}
		sc.alike(sc.token(1).String(), scripts)
		sc.alike("", map[string][]step{"isolation": scripts["isolation"], "snapshot": scripts["snapshot"], "deferrable": scripts["deferrable"], "by default": scripts["by default"]})
	})
}

// TestDeferrable: a transaction that waits for a safe snapshot waits for as long
// as that takes; the check is not what ends it.
func TestDeferrable(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{ClaimWait: 50 * time.Millisecond}, func(t *testing.T, sc *scene) {
		writer := sc.connect(sc.url)
		sc.exec(writer, "BEGIN ISOLATION LEVEL SERIALIZABLE")
		sc.exec(writer, insertOne)
		reader := sc.connect(sc.via(sc.token(1).String()))
		tx, err := reader.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable})
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		var n int
		go func() { read <- tx.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n) }()
		admin := sc.connect(sc.url)
		eventually(t, "it waits for a safe snapshot", func() bool {
			var event string
			return admin.QueryRow(t.Context(), "SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = $1", reader.PgConn().PID()).Scan(&event) == nil && event == "SafeSnapshot"
		})
		sc.exec(writer, "COMMIT")
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestPreparedTransaction: PREPARE TRANSACTION keeps the fence: a claim waits for
// what was prepared, and says so; a session that is stale prepares nothing.
func TestPreparedTransaction(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{ClaimWait: 100 * time.Millisecond}, func(t *testing.T, sc *scene) {
		gid := fmt.Sprintf("prepared-%d", time.Now().UnixNano()) // other tests have theirs on this server
		c := sc.raw(sc.via(sc.token(1).String()))
		c.replay(t, query("BEGIN"), query(insertOne))
		wantWords(t, "prepare", c.replay(t, query("PREPARE TRANSACTION '"+gid+"'")), []string{"C:PREPARE TRANSACTION", "Z:I"})
		next := sc.connect(sc.via(sc.token(2).String()))
		_, err := next.Exec(t.Context(), "INSERT INTO t VALUES (2, 'b')")
		sc.wants(err, "TK004")
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || !strings.Contains(pg.Hint, "COMMIT PREPARED") {
			t.Errorf("it does not say what to do: %+v", pg)
		}
		wantWords(t, "commit prepared", c.replay(t, query("COMMIT PREPARED '"+gid+"'")), []string{"C:COMMIT PREPARED", "Z:I"})
		sc.exec(next, "INSERT INTO t VALUES (2, 'b')")
		c.replay(t, query("BEGIN"), query("INSERT INTO t VALUES (3, 'c')"))
		wantRefusal(t, c.replay(t, query("PREPARE TRANSACTION '"+gid+"'")), "TK001")
		if n := sc.count(); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestHeldCursors: a cursor that outlives its block is read as before, and not by
// a stale session.
func TestHeldCursors(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		held := []step{
			query("BEGIN"), query("DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 5)"), query("FETCH 2 FROM c"), query("COMMIT"), query("FETCH 2 FROM c"),
			{&pgproto3.Describe{ObjectType: 'P', Name: "c"}, &pgproto3.Execute{Portal: "c", MaxRows: 1}, &pgproto3.Sync{}},
		}
		sc.alike(sc.token(1).String(), map[string][]step{"held": append(slices.Clone(held), query("CLOSE c"))})
		c := sc.raw(sc.via(sc.token(1).String()))
		c.replay(t, held[:4]...)
		sc.claim(sc.token(2))
		wantRefusal(t, c.replay(t, query("FETCH 1 FROM c")), "TK001")
	})
}

// TestRefusedIsNotNotified: what a stale session notifies nobody hears.
func TestRefusedIsNotNotified(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		listener := sc.raw(sc.url)
		listener.replay(t, query("LISTEN c"))
		c := sc.raw(sc.via(sc.token(1).String()))
		c.replay(t, query("BEGIN"), query("NOTIFY c, 'stale'"))
		sc.claim(sc.token(2))
		wantRefusal(t, c.replay(t, query("COMMIT")), "TK001")
		wantRefusal(t, c.replay(t, query("NOTIFY c, 'stale'")), "TK001")
		wantRefusal(t, c.replay(t, series("SELECT pg_notify('c', 'stale')")), "TK001")
		sc.run(sc.admin(), "NOTIFY c, 'current'")
		wantWords(t, "heard", listener.hear(1, "A:"), []string{"A:c=current"})
	})
}
