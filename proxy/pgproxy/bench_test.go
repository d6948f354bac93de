package pgproxy

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

var (
	benchRounds = flag.Int("pgbench-rounds", 5, "rounds of BenchmarkPgbench")
	benchTime   = flag.Duration("pgbench-time", 5*time.Second, "time of one run of pgbench")
	benchCells  = flag.String("pgbench-cells", ".", "regular expression of the rows of BenchmarkPgbench, such as update/32")
)

const pgbenchUpdate = `\set aid random(1, 100000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
`

// way is one way from pgbench to the server.
type way struct {
	name, dsn string
	env       string // PGOPTIONS
}

// sample is what one run of pgbench tells.
type sample struct {
	tps      float64
	p50, p99 time.Duration
}

// BenchmarkPgbench compares, in turn and on one server: the server itself,
// PgBouncer in session mode, the proxy with the fence on, and the proxy for a
// session without a token that may do everything. It prints a table of medians.
// The server does not wait for the disk, but in the work update-fsync, where it
// writes as in production.
func BenchmarkPgbench(b *testing.B) {
	update := filepath.Join(b.TempDir(), "update.sql")
	if err := os.WriteFile(update, []byte(pgbenchUpdate), 0o600); err != nil {
		b.Fatal(err)
	}
	shared := testenv.Postgres(b)
	fmt.Printf("\nPostgreSQL %d, %d rounds of %v, pgbench -M prepared; throughput as a ratio to PgBouncer in the same round: median [min-max]\n\n",
		shared.Major(), *benchRounds, *benchTime)
	fmt.Println("| work | clients | direct | fenced | allowed | PgBouncer tps | p50 / p99 direct | PgBouncer | fenced | allowed |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for b.Loop() {
		compareWork(b, shared, "-S", "-S")
		compareWork(b, shared, "update", "-f", update)
		compareWork(b, testenv.StartPostgres(b, testenv.PostgresConfig{Fsync: true}), "update-fsync", "-f", update)
	}
}

// compareWork prints the rows of one work on one server.
func compareWork(b *testing.B, server *testenv.PostgresServer, work string, args ...string) {
	b.Helper()
	sc := newBenchScene(b, server)
	ways := []way{
		{name: "direct", dsn: sc.url},
		{name: "PgBouncer", dsn: testenv.PgBouncer(b, sc.url, "session")},
		{name: "fenced", dsn: sc.proxy(b, ReadOnly), env: "-c fence.token=ft1:x:1:h:i:orders"},
		{name: "allowed", dsn: sc.proxy(b, Allow)},
	}
	sc.pgbench(b, ways[0], "-i", "-s", "1", "-q")
	for _, clients := range []int{1, 8, 32} {
		if regexp.MustCompile(*benchCells).MatchString(fmt.Sprintf("%s/%d", work, clients)) {
			sc.compare(b, work, clients, ways, args)
		}
	}
}

// benchScene is a scene without the noise.
type benchScene struct{ *scene }

func newBenchScene(b *testing.B, s *testenv.PostgresServer) *benchScene {
	b.Helper()
	return &benchScene{&scene{url: installed(b, s), addr: s.Addr()}}
}

func (sc *benchScene) proxy(b *testing.B, policy Policy) string {
	b.Helper()
	addr, _ := serveProxy(b, Config{
		Upstream: Upstream{Address: sc.addr}, Untokened: policy, Logger: slog.New(slog.DiscardHandler),
	})
	return testenv.URLVia(sc.url, addr)
}

func (sc *benchScene) compare(b *testing.B, work string, clients int, ways []way, args []string) {
	b.Helper()
	samples := make([][]sample, len(ways))
	for range *benchRounds {
		for _, i := range rand.Perm(len(ways)) {
			samples[i] = append(samples[i], sc.measure(b, ways[i], clients, args))
		}
	}
	var row strings.Builder
	fmt.Fprintf(&row, "| %s | %d |", work, clients)
	for _, i := range []int{0, 2, 3} {
		var ratios []float64
		for round := range *benchRounds {
			ratios = append(ratios, samples[i][round].tps/samples[1][round].tps)
		}
		slices.Sort(ratios)
		fmt.Fprintf(&row, " %.2f [%.2f-%.2f] |", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	}
	fmt.Fprintf(&row, " %.0f |", median(samples[1], func(s sample) float64 { return s.tps }))
	for i := range ways {
		fmt.Fprintf(&row, " %.0f / %.0f µs |", median(samples[i], func(s sample) float64 { return float64(s.p50.Microseconds()) }),
			median(samples[i], func(s sample) float64 { return float64(s.p99.Microseconds()) }))
	}
	fmt.Println(row.String())
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (sc *benchScene) measure(b *testing.B, w way, clients int, args []string) sample {
	b.Helper()
	dir := b.TempDir()
	args = append([]string{
		"-n", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", "1", "-T", strconv.Itoa(max(1, int(benchTime.Seconds()))),
		"-l", "--log-prefix", filepath.Join(dir, "log"),
	}, args...)
	out := sc.pgbench(b, w, args...)
	s := sample{}
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "tps = "); ok {
			s.tps, _ = strconv.ParseFloat(strings.Fields(text)[0], 64)
		}
	}
	if s.tps == 0 {
		b.Fatalf("pgbench says: %s", out)
	}
	s.p50, s.p99 = percentiles(b, dir)
	return s
}

// percentiles reads the logs of a run: the third field is microseconds.
func percentiles(b *testing.B, dir string) (p50, p99 time.Duration) {
	b.Helper()
	var all []int
	logs, err := filepath.Glob(filepath.Join(dir, "log*"))
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(content))
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) > 2 {
				us, _ := strconv.Atoi(fields[2])
				all = append(all, us)
			}
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	at := func(q int) time.Duration { return time.Duration(all[len(all)*q/100]) * time.Microsecond }
	return at(50), at(99)
}

func (sc *benchScene) pgbench(b *testing.B, w way, args ...string) string {
	b.Helper()
	u, err := url.Parse(w.dsn)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("pgbench", append(args, strings.TrimPrefix(u.Path, "/"))...)
	password, _ := u.User.Password()
	cmd.Env = append(os.Environ(), "PGHOST="+u.Hostname(), "PGPORT="+u.Port(), "PGUSER="+u.User.Username(), "PGPASSWORD="+password, "PGOPTIONS="+w.env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("pgbench through %s: %v\n%s", w.name, err, out)
	}
	return string(out)
}
