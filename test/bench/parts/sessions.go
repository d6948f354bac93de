package parts

import (
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/machine"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

const mostSessions = 5000

// benchSessions is what idle sessions take, and what they cost those who work.
func benchSessions(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	db, idle := scene.StartDatabase(b, false), scene.IdleServer(b)
	b.Must(db.Fill(b.Context()))
	proxy := db.TwoListeners(b, idle)
	bouncer, bouncerPID := scene.BouncerOf(b, idle, mostSessions)
	fenced := scene.Door{URL: testenv.URLVia(db.URL, proxy.Addrs[0]), Token: ordersToken, PID: proxy.PID}
	update := []string{"-c", "8", "-f", pgbenchScript(b)}
	ways := []turns.Way{
		pgbenchWay(db, "direct", scene.Door{URL: db.URL}, update...),
		pgbenchWay(db, "fenceproxy", fenced, update...),
	}
	counts := []int{0, 1, 10, 100, 1000, mostSessions}
	if s.Quick {
		counts = counts[:5]
	}
	for _, n := range counts {
		memory, working := results.Row{Bench: "memory", N: n}, results.Row{Bench: "working", Case: "update", N: n}
		err := bed.Run(b.Context(), func(b *bed.Bed) error {
			for _, w := range []struct {
				name, addr string
				pid        int
			}{{"fenceproxy", proxy.Addrs[1], proxy.PID}, {"PgBouncer", bouncer, bouncerPID}} {
				bed.Say("%d sessions by %s", n, w.name)
				open(b, w.addr, n)
				now, _, err := machine.Memory(w.pid)
				b.Must(err)
				memory.Add(w.name, "MiB", now)
			}
			return turns.Take(b.Context(), s.plan(5, 2*time.Second), &working, ways)
		})
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, memory, working)
	}
	return rows, []string{db.Version, scene.PgBouncerVersion(b)}, nil
}

// open opens idle sessions, which end with the bed.
func open(b *bed.Bed, addr string, n int) {
	for range n {
		conn, err := scene.Login(addr)
		b.Must(err)
		b.Cleanup(func() { conn.Close() })
	}
}
