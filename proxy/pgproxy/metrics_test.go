package pgproxy

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/internal/labels"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// counted is what a counter stands at.
func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

func wantRefused(t *testing.T, f *front, cause string, want float64) {
	t.Helper()
	if got := counted(t, f.metrics.refused.WithLabelValues(cause)); got != want {
		t.Errorf("refused_connections_total{cause=%q} is %v, want %v", cause, got, want)
	}
}

// Clients choose the names of resources: there are not more labels for that.
func TestResourceLabelsAreBounded(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m, err := NewMetrics(r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		m.refusal("stale token", fmt.Sprint("r", i%500))
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "fenceproxy_postgres_refusals_total" {
			continue
		}
		if n := len(f.GetMetric()); n != maxResources+1 {
			t.Errorf("%d label values", n)
		}
	}
	if got := counted(t, m.refusals.WithLabelValues("stale token", labels.Other)); got != 800 {
		t.Errorf("other is %v, want 800", got)
	}
}

// A refusal is counted, and logged, for the resource whose token it was: at the first
// statement of a session too, behind a token that was good, and among several.
func TestRefusalsTellTheResource(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	config := Config{Logger: slog.New(slog.NewJSONHandler(&log, nil))}
	sc := newScene(t, testenv.StartPostgres(t, testenv.PostgresConfig{}), config)
	of := func(resource string, number int64) guard.Token {
		token := sc.token(number)
		token.Resource = resource
		return token
	}
	for _, resource := range []string{"first", "second", "last"} {
		sc.claim(of(resource, 9))
	}
	fails := func(conn *pgx.Conn) {
		t.Helper()
		_, err := conn.Exec(t.Context(), "SELECT 1")
		wantState(t, err, "TK001")
	}
	set := func(conn *pgx.Conn, tokens ...guard.Token) {
		t.Helper()
		text, err := carrier.SetStatement(tokens...)
		if err != nil {
			t.Fatal(err)
		}
		sc.exec(conn, text, pgx.QueryExecModeSimpleProtocol)
	}
	fails(sc.connect(sc.via(of("first", 1).String())))
	conn := sc.connect(sc.via(""))
	set(conn, of("good", 5))
	sc.exec(conn, "SELECT 1", pgx.QueryExecModeSimpleProtocol)
	set(conn, of("second", 2))
	fails(conn)
	conn = sc.connect(sc.via(""))
	set(conn, of("good", 5), of("last", 3))
	fails(conn)
	for resource, number := range map[string]int{"first": 1, "second": 2, "last": 3} {
		if got := counted(t, sc.server.config.Load().Metrics.refusals.WithLabelValues(guard.ErrStale.Error(), resource)); got != 1 {
			t.Errorf("%s: %v refusals", resource, got)
		}
		if line := fmt.Sprintf(`"resource":%q,"number":%d,`, resource, number); !strings.Contains(log.String(), line) {
			t.Errorf("no %s in the log: %s", line, log.String())
		}
	}
}

func TestMetricsRegister(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		if _, err := NewMetrics(prometheus.WrapRegistererWith(prometheus.Labels{"listener": name}, r)); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewMetrics(prometheus.WrapRegistererWith(prometheus.Labels{"listener": "a"}, r)); err == nil {
		t.Error("registers twice")
	}
}
