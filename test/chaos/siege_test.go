package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy"
)

// gate is one proxy of several in front of a server, with links on both sides of
// it. Stopped and opened again it keeps its address.
type gate struct {
	config   pgproxy.Config
	registry *prometheus.Registry
	addr     string // of the proxy itself
	inner    *testenv.Link
	outer    *testenv.Link

	server *pgproxy.Server
	cut    context.CancelFunc
	served chan error
}

func newGate(t *testing.T, s *testenv.PostgresServer, c pgproxy.Config) *gate {
	t.Helper()
	g := &gate{config: c, registry: prometheus.NewRegistry(), addr: "127.0.0.1:0"}
	g.inner = testenv.NewLink(t, s.Addr(), testenv.LinkConfig{})
	g.config.Upstream.Address = g.inner.Addr()
	var err error
	if g.config.Metrics, err = pgproxy.NewMetrics(g.registry); err != nil {
		t.Fatal(err)
	}
	g.open(t)
	g.outer = testenv.NewLink(t, g.addr, testenv.LinkConfig{Protocol: testenv.PostgresWire})
	return g
}

// open serves until close.
func (g *gate) open(t *testing.T) {
	t.Helper()
	var err error
	if g.server, err = pgproxy.New(g.config); err != nil {
		t.Fatal(err)
	}
	var ln net.Listener
	for deadline := time.Now().Add(time.Minute); ; pause(t.Context(), 10*time.Millisecond) {
		if ln, err = pgproxy.Listen(t.Context(), g.addr, 0); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	g.addr = ln.Addr().String()
	ctx, cut := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(ctx, ln) }()
	g.cut, g.served = cut, served
}

// close ends it: with patience, or at once.
func (g *gate) close(t *testing.T, patience time.Duration) {
	t.Helper()
	if patience > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_ = g.server.Shutdown(ctx) // what is not over by then is cut
		cancel()
	}
	g.cut()
	select {
	case err := <-g.served:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a proxy that was stopped serves on after a minute")
	}
}

// sessions is the gauge of that name.
func (g *gate) sessions(t *testing.T) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "fenceproxy_postgres_sessions" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no gauge of sessions")
	return 0
}

// shift is how long a turn lasts, until the next one begins.
const shift = 100 * time.Millisecond

// fate is what is known of a write.
type fate byte

const (
	unknown fate = iota
	acknowledged
	notApplied
)

// told is what a worker was told of its write.
type told struct {
	fate fate
	way  string
	err  error
}

// siege is workers that take turns to write through proxies, and go on when
// their turn is over.
type siege struct {
	server *testenv.PostgresServer
	admin  string // of a superuser, without a proxy
	role   string
	url    string // of the role, without a proxy
	gates  []*gate
	fenced bool
	harms  int // so far

	mu       sync.Mutex
	number   int64     // of the last turn that has begun
	until    time.Time // when the next may begin
	id       int64
	claims   map[int64]time.Time // when the claim of a number had returned
	fates    map[int64]told
	outcomes map[string]int
	wrong    []string
}

func newSiege(t *testing.T, major int, fenced bool) *siege {
	t.Helper()
	s := testenv.StartPostgres(t, testenv.PostgresConfig{Major: major, Settings: map[string]string{"track_commit_timestamp": "on", "max_connections": "300"}})
	b := &siege{
		server: s, admin: s.Database(t), fenced: fenced,
		claims: map[int64]time.Time{}, fates: map[int64]told{}, outcomes: map[string]int{},
	}
	role, password := s.Role(t, "LOGIN")
	b.role, b.url = role, testenv.URLAs(b.admin, role, password)
	if err := migrations.Up(t.Context(), b.admin, migrations.Config{Grant: []string{role}}); err != nil {
		t.Fatal(err)
	}
	b.query(t, fmt.Sprintf("create table written (number bigint, id bigint); create table still (n int); grant all on written, still to %s; select 0", role))
	policy := pgproxy.ReadOnly
	if !fenced {
		policy = pgproxy.Allow
	}
	for _, wait := range []time.Duration{30 * time.Millisecond, 2 * time.Second} {
		b.gates = append(b.gates, newGate(t, s, pgproxy.Config{Untokened: policy, ClaimWait: wait, Evict: true}))
	}
	return b
}

// query asks the server for a number, as a superuser.
func (b *siege) query(t *testing.T, sql string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	_, err = fmt.Sscan(string(results[len(results)-1].Rows[0][0]), &n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// via is the URL of a gate, with the token of a turn.
func (b *siege) via(g *gate, number int64) (string, error) {
	u, err := url.Parse(testenv.URLVia(b.url, g.outer.Addr()))
	if err != nil || !b.fenced {
		return u.String(), err
	}
	token := guard.Token{Resource: resource, Number: number, Mode: guard.Exclusive, Holder: fmt.Sprintf("h%d", number), Issuer: "i"}
	q := u.Query()
	q.Set("options", "-c fence.token="+token.String())
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String(), nil
}

func (b *siege) count(outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes[outcome]++
}

func (b *siege) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) < 20 {
		b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
	}
}

// turn waits until the turn of another is over, or its time, and returns the
// number of the next.
func (b *siege) turn(ctx context.Context) (number int64, err error) {
	for ; ctx.Err() == nil; pause(ctx, time.Millisecond) {
		b.mu.Lock()
		now := time.Now()
		if free := now.After(b.until); free {
			b.number++
			b.until = now.Add(shift)
			defer b.mu.Unlock()
			return b.number, nil
		}
		b.mu.Unlock()
	}
	return 0, ctx.Err()
}

// newest reports whether no turn has begun since that of number.
func (b *siege) newest(number int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.number == number
}

func (b *siege) claimed(number int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims[number] = time.Now()
	b.outcomes["claimed"]++
}

func (b *siege) nextID() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.id++
	return b.id
}

func (b *siege) settle(id int64, what told) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fates[id] = what
	b.outcomes[[]string{"unknown", "acknowledged", "not applied"}[what.fate]]++
}

func (b *siege) summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var words []string
	for _, key := range slices.Sorted(maps.Keys(b.outcomes)) {
		words = append(words, fmt.Sprintf("%s %d", key, b.outcomes[key]))
	}
	return strings.Join(words, ", ")
}
