package clients_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestDump dumps a database and restores it with two connections, both through
// the proxy. Debian's programs are of version 15, and refuse newer servers.
func TestDump(t *testing.T) {
	t.Parallel()
	s := testenv.PostgresVersion(t, 15)
	w := newWorld(t, s, current)
	w.exec(t, "INSERT INTO blobs SELECT i, decode(repeat('00ff', i), 'hex') FROM generate_series(1, 300) AS i; SELECT lo_from_bytea(0, 'large')")
	w.exec(t, "CREATE MATERIALIZED VIEW sums AS SELECT sum(balance) FROM accounts; CREATE INDEX ON accounts (owner)")
	dump, dir := debian(t, "pg_dump"), t.TempDir()
	formats := [][]string{
		{"-Fp", "-f", filepath.Join(dir, "plain")},
		{"-Fd", "-j2", "-f", filepath.Join(dir, "folder")},
		{"-Fc", "-f", filepath.Join(dir, "custom"), "--serializable-deferrable"},
	}
	for _, args := range formats {
		if said, err := w.run(t, dump, append(args, "-N", "fence")...); err != nil || said != "" {
			t.Errorf("pg_dump %v: %v\n%s", args, err, said)
		}
	}
	straight := *w
	straight.addr, straight.token = s.Addr(), ""
	if said, err := straight.run(t, dump, "-Fp", "-f", filepath.Join(dir, "direct"), "-N", "fence"); err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, said)
	}
	same(t, "the dump", w.plain(t, read(t, filepath.Join(dir, "direct"))), w.plain(t, read(t, filepath.Join(dir, "plain"))))

	for _, from := range []string{"folder", "custom"} {
		t.Run(from, func(t *testing.T) {
			restored := newWorld(t, s, current)
			restored.exec(t, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
			name := restored.database(t)
			if said, err := restored.run(t, debian(t, "pg_restore"), "-j2", "-d", name, filepath.Join(dir, from)); err != nil || said != "" {
				t.Errorf("pg_restore: %v\n%s", err, said)
			}
			same(t, "what was restored", w.state(t), restored.state(t))
			restored.claim(t)
			if said, err := restored.run(t, debian(t, "pg_restore"), "--clean", "-j2", "-d", name, filepath.Join(dir, from)); err == nil {
				t.Errorf("pg_restore with a stale token did it:\n%s", said)
			} else {
				refused(t, said)
			}
			same(t, "what is there", w.state(t), restored.state(t))
		})
	}
}

// TestVacuumdb runs it with one connection and with several.
func TestVacuumdb(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		w := newWorld(t, s, current)
		for _, args := range [][]string{{"--analyze"}, {"--full", "-t", "accounts"}, {"-j2", "--analyze-in-stages"}} {
			if said, err := w.run(t, debian(t, "vacuumdb"), args...); err != nil {
				t.Errorf("vacuumdb %v: %v\n%s", args, err, said)
			}
		}
		w.claim(t)
		said, err := w.run(t, debian(t, "vacuumdb"), "-t", "accounts")
		if err == nil {
			t.Errorf("vacuumdb with a stale token did it:\n%s", said)
		}
		refused(t, said)
	})
}

// database is the name of the world's.
func (w *world) database(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path[1:]
}
