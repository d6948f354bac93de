package migrations_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// BenchmarkBindOnly is what a check within Bind adds to an autocommit update of
// one row by a prepared statement, with synchronous_commit off, or to a select
// where there is no token: in µs of the server process's CPU, and as seen by
// the client. Rounds run all of them in shuffled order; the figures are medians
// over the rounds of the difference to the bare statement in the same round.
func BenchmarkBindOnly(b *testing.B) {
	for _, major := range []int{15, 18} {
		b.Run(fmt.Sprintf("pg%d", major), func(b *testing.B) {
			s := install(b, testenv.PostgresVersion(b, major)).proxied(b)
			exec(b, s.old, "set synchronous_commit = off")
			exec(b, s.old, "insert into "+s.table+" values (1)")
			compareChecks(b, s)
		})
	}
}

// benched is a statement with a check in front, which is compared with the
// same statement without.
type benched struct {
	check             []pgproto3.FrontendMessage
	statement, tokens string
}

func compareChecks(b *testing.B, s *stage) {
	const statements = 200 // a round, short enough for all to see the same noise
	all := map[string]benched{
		"select": {nil, "select", ""}, "update": {nil, "update", s.r.writer(33)},
		"no token, enters": {enters.bind("read-only"), "select", ""}, "no token, leaves": {lastSlow.bind("", "read-only"), "select", ""},
	}
	for name, check := range s.fencedChecks() {
		all[name] = benched{check, "update", s.r.writer(33)}
	}
	for name, sql := range map[string]string{"update": "update " + s.table + " set n = n + 1", "select": "select n from " + s.table} {
		if _, err := s.old.PgConn().Prepare(b.Context(), name, sql, nil); err != nil {
			b.Fatal(err)
		}
	}
	names := slices.Sorted(maps.Keys(all))
	cpu, wall := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for _, i := range rand.Perm(len(names)) {
			name := names[i]
			carry(b, s.old, all[name].tokens)
			used, start := serverCPU(s.old), time.Now()
			all[name].run(b, s.old, statements)
			wall[name] = append(wall[name], float64(time.Since(start).Microseconds())/statements)
			cpu[name] = append(cpu[name], float64((serverCPU(s.old)-used).Nanoseconds())/1000/statements)
		}
	}
	for _, name := range names {
		unit := strings.ReplaceAll(strings.ReplaceAll(name, ", ", "/"), " ", "-")
		if bare := all[name].statement; bare != name {
			b.ReportMetric(median(added(cpu[name], cpu[bare])), unit+"+cpu-us")
			b.ReportMetric(median(added(wall[name], wall[bare])), unit+"+us")
			continue
		}
		b.ReportMetric(median(cpu[name]), unit+"-cpu-us")
		b.ReportMetric(median(wall[name]), unit+"-us")
	}
	b.ReportMetric(0, "ns/op")
}

func (v benched) run(b *testing.B, conn *pgx.Conn, n int) {
	b.Helper()
	messages := append(slices.Clone(v.check), &pgproto3.Bind{PreparedStatement: v.statement}, &pgproto3.Execute{}, &pgproto3.Sync{})
	for range n {
		if _, failure, err := exchange(context.Background(), conn, messages...); err != nil || failure != nil {
			b.Fatal(err, failure)
		}
	}
}

// serverCPU is the time that the server process of a connection has run, 0 if
// it is not on this machine.
func serverCPU(conn *pgx.Conn) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", conn.PgConn().PID()))
	if err != nil {
		return 0
	}
	ns, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	return time.Duration(ns)
}

func added(with, without []float64) []float64 {
	difference := make([]float64, len(with))
	for i := range with {
		difference[i] = with[i] - without[i]
	}
	return difference
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
