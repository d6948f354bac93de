package clients_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func pgbench(t *testing.T) string {
	t.Helper()
	return testenv.Program(t, "/usr/lib/postgresql/15/bin/pgbench", "debian/usr/lib/postgresql/15/bin/pgbench")
}

// TestPgbench runs it in each of its modes, with blocks of its own and with a
// pipeline.
func TestPgbench(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		w := newWorld(t, s, current)
		for _, run := range [][]string{
			{"-i", "-q", "-s", "1"},
			{"-M", "simple", "-n", "-t", "20", "-c", "3"},
			{"-M", "extended", "-n", "-t", "20", "-c", "3"},
			{"-M", "prepared", "-n", "-t", "20", "-c", "3"},
			{"-M", "simple", "-n", "-t", "20", "-S"},
			{"-M", "prepared", "-n", "-t", "20", "-S"},
			{"-M", "extended", "-n", "-t", "20", "-f", "testdata/pipeline.pgbench"},
			{"-M", "prepared", "-n", "-t", "20", "-f", "testdata/pipeline.pgbench"},
		} {
			if said, err := w.run(t, pgbench(t), run...); err != nil {
				t.Errorf("pgbench %v: %v\n%s", run, err, said)
			}
		}
		var tpcb, piped int
		if err := w.admin.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE mtime IS NOT NULL), count(*) FILTER (WHERE mtime IS NULL) FROM pgbench_history").Scan(&tpcb, &piped); err != nil {
			t.Fatal(err)
		}
		if tpcb != 180 || piped != 80 {
			t.Errorf("%d and %d rows in pgbench_history, want 180 and 80", tpcb, piped)
		}
		w.claim(t)
		before := w.state(t)
		for _, run := range [][]string{
			{"-M", "simple", "-n", "-t", "2"},
			{"-M", "extended", "-n", "-t", "2"},
			{"-M", "prepared", "-n", "-t", "2", "-f", "testdata/pipeline.pgbench"},
		} {
			said, err := w.run(t, pgbench(t), run...)
			if err == nil || !strings.Contains(said, "stale token") {
				t.Errorf("pgbench %v: %v\n%s", run, err, said)
			}
		}
		same(t, "what it wrote", before, w.state(t))
	})
}

// run runs a program that ends by itself.
func (w *world) run(t *testing.T, name string, args ...string) (said string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = w.env(t)
	out, err := cmd.CombinedOutput()
	return w.plain(t, string(out)), err
}
