package pgproxy

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// copySeries is a COPY by the extended protocol as several drivers send it: with
// the Sync in front of the data, which the server ignores while it copies, and
// another behind it.
func copySeries(rows string) step {
	return slices.Concat(series("COPY t FROM STDIN"), step{&pgproto3.CopyData{Data: []byte(rows)}, &pgproto3.CopyDone{}, &pgproto3.Sync{}})
}

// TestSyncBeforeData: a Sync in front of COPY's data is no boundary if the server
// copies, and is one if it does not (pgbouncer #1023, #1025, rust-postgres #789).
// A proxy that counts otherwise waits for replies that do not come, more and more.
func TestSyncBeforeData(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		through, direct := sc.raw(sc.via(sc.token(1).String())), sc.raw(sc.url)
		admin := sc.admin()
		play := func(what string, s step, ready int) {
			t.Helper()
			var got [2][]string
			for i, c := range []*raw{direct, through} {
				c.say(t, s...)
				got[i] = c.hear(ready, "Z:")
				sc.run(admin, "TRUNCATE t")
			}
			wantWords(t, what, got[1], got[0])
		}
		copied := func(id int) string { return fmt.Sprintf("%d\ta\n", id) }
		flushed := slices.Concat(unsynced("COPY t FROM STDIN"), step{&pgproto3.Flush{}, &pgproto3.CopyData{Data: []byte("1\ta\n")}, &pgproto3.Flush{}, &pgproto3.CopyDone{}, &pgproto3.Sync{}})
		play("copied", copySeries(copied(1)), 1)
		play("then a query", query("SELECT 1"), 1)
		play("with Flush", flushed, 1)
		play("wrong data", copySeries("x\ta\n"), 1)
		play("then a query", query("SELECT 2"), 1)
		play("no such table", slices.Concat(series("COPY nowhere FROM STDIN"), step{&pgproto3.CopyData{Data: []byte("1\ta\n")}, &pgproto3.CopyDone{}, &pgproto3.Sync{}}), 2)
		play("then series", slices.Concat(series("SELECT 3"), series("SELECT 4")), 2)
		play("given up", slices.Concat(series("COPY t FROM STDIN"), step{&pgproto3.CopyFail{Message: "no"}, &pgproto3.Sync{}}), 1)
		play("then a query", query("SELECT 5"), 1)
		play("out", slices.Concat(series("COPY (SELECT 1) TO STDOUT"), query("COPY (SELECT 1) TO STDOUT"), query("SELECT 6")), 3)
		play("within a Query", slices.Concat(query("SELECT 1; COPY t FROM STDIN; SELECT 2"), step{&pgproto3.CopyData{Data: []byte("1\ta\n")}, &pgproto3.Sync{}, &pgproto3.Flush{}, &pgproto3.CopyDone{}}), 1)
		play("in a block", slices.Concat(query("BEGIN"), copySeries(copied(1)), query("COMMIT")), 3)

		c := sc.raw(sc.via(sc.token(1).String()))
		c.replay(t, query("TRUNCATE t"))
		for i := range 1000 {
			c.say(t, copySeries(copied(i))...)
			wantWords(t, "one of many", c.hear(1, "Z:"), []string{"ParseComplete", "BindComplete", "CopyInResponse", "C:COPY 1", "Z:I"})
		}
		// For another token the proxy waits until it knows of nothing under way.
		wantWords(t, "behind many", c.replay(t, query("SET fence.token = '"+sc.token(2).String()+"'"), query("DELETE FROM t WHERE id < 0")), []string{"C:SET", "Z:I", "C:DELETE 0", "Z:I"})
		if n := sc.count(); n != 1000 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestCopyByteByByte: data and everything around it in segments of one byte
// (odyssey #554).
func TestCopyByteByByte(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		c := sc.raw(sc.via(sc.token(1).String()))
		var b []byte
		for _, m := range slices.Concat(
			query("COPY t FROM STDIN"), step{&pgproto3.CopyData{Data: []byte("1\ta\n2\t")}, &pgproto3.CopyData{}, &pgproto3.CopyData{Data: []byte("b\n")}, &pgproto3.CopyDone{}},
			query("SELECT 1"), copySeries("3\tc\n"), query("COPY (SELECT v FROM t ORDER BY id) TO STDOUT"),
		) {
			b, _ = m.Encode(b)
		}
		for i := range b {
			if _, err := c.conn.Write(b[i : i+1]); err != nil {
				t.Fatal(err)
			}
		}
		wantWords(t, "replies", c.hear(4, "Z:"), []string{
			"CopyInResponse", "C:COPY 2", "Z:I", "RowDescription", `D:["1"]`, "C:SELECT 1", "Z:I", "ParseComplete", "BindComplete", "CopyInResponse", "C:COPY 1", "Z:I",
			"CopyOutResponse", `d:"a\n"`, `d:"b\n"`, `d:"c\n"`, "CopyDone", "C:COPY 3", "Z:I",
		})
	})
}

// TestPsqlCopiesFromPipe: what psql reads from a program that writes in its own
// time.
func TestPsqlCopiesFromPipe(t *testing.T) {
	t.Parallel()
	eachScene(t, Config{}, func(t *testing.T, sc *scene) {
		const rows = 100_000
		var data bytes.Buffer
		for i := range rows {
			fmt.Fprintf(&data, "%d\tv\n", i)
		}
		psql := exec.CommandContext(t.Context(), "psql", "-X", "-d", sc.via(sc.token(1).String()), "-c", "COPY t FROM STDIN", "-c", "SELECT 'and on'")
		psql.Stdin = &data
		out, err := psql.CombinedOutput()
		if err != nil || !strings.Contains(string(out), fmt.Sprintf("COPY %d", rows)) || !strings.Contains(string(out), "and on") {
			t.Errorf("psql: %v\n%s", err, out)
		}
		if n := sc.count(); n != rows {
			t.Errorf("%d rows", n)
		}
	})
}
