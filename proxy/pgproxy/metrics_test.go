package pgproxy

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/internal/labels"
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
