package parts

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

const updateOne = `\set aid random(1, 100000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
`

const ordersToken = "ft1:x:1:h:i:orders"

// benchPgproxy is pgbench by way of the proxy, of PgBouncer, and of nothing.
func benchPgproxy(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	update := pgbenchScript(b)
	plan := s.plan(7, 2*time.Second)
	for _, work := range []struct {
		name  string
		fsync bool
		args  []string
	}{{"select", false, []string{"-S"}}, {"update", false, []string{"-f", update}}, {"update-fsync", true, []string{"-f", update}}} {
		err := bed.Run(b.Context(), func(b *bed.Bed) error {
			db := scene.StartDatabase(b, work.fsync)
			of = []string{db.Version, scene.PgBouncerVersion(b)}
			b.Must(db.Fill(b.Context()))
			ways := []struct {
				name string
				door scene.Door
			}{
				{"direct", scene.Door{URL: db.URL}},
				{"PgBouncer", db.PgBouncer(b)},
				{"fenced", db.Proxy(b, "read-only", ordersToken)},
				{"allowed", db.Proxy(b, "allow", "")},
			}
			for _, clients := range []int{1, 8, 32} {
				row := results.Row{Bench: "pgbench", Case: work.name, N: clients}
				var all []turns.Way
				for _, w := range ways {
					all = append(all, pgbenchWay(db, w.name, w.door, append([]string{"-c", strconv.Itoa(clients)}, work.args...)...))
				}
				if err := turns.Take(b.Context(), plan, &row, all); err != nil {
					return err
				}
				rows = append(rows, row)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return rows, of, nil
}

func pgbenchScript(b *bed.Bed) string {
	path := filepath.Join(b.TempDir(), "update.sql")
	b.Must(os.WriteFile(path, []byte(updateOne), 0o600))
	return path
}

func pgbenchWay(db *scene.Database, name string, door scene.Door, args ...string) turns.Way {
	return turns.Way{Name: name, Processes: db.Processes(door), Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
		return scene.Pgbench(ctx, door, turn, args...)
	}}
}
