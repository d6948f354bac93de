package pgproxy

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/internal/labels"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay"
)

const (
	namespace    = "fenceproxy"
	subsystem    = "postgres"
	maxResources = 100 // label values of resource; then labels.Other
)

// Metrics are what servers count, for Prometheus. Make them with NewMetrics.
type Metrics struct {
	sessions      prometheus.Gauge
	sessionsTotal prometheus.Counter
	refused       *prometheus.CounterVec // cause
	cancels       prometheus.Counter
	checks        *prometheus.CounterVec // kind
	checkSeconds  prometheus.Histogram
	refusals      *prometheus.CounterVec // reason, resource
	claims        *prometheus.CounterVec // result
	claimSeconds  prometheus.Histogram
	evictions     prometheus.Counter
	idleKills     prometheus.Counter
	bytes         *prometheus.CounterVec // direction

	relay relay.Metrics // those of them that sessions count

	resources *labels.Bounded // clients choose them
}

// NewMetrics makes metrics and registers them. To tell several servers apart,
// give each its own, with a label of its own:
// prometheus.WrapRegistererWith(prometheus.Labels{"listener": name}, r).
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := newMetrics()
	var err error
	for _, c := range []prometheus.Collector{
		m.sessions, m.sessionsTotal, m.refused, m.cancels, m.checks, m.checkSeconds,
		m.refusals, m.claims, m.claimSeconds, m.evictions, m.idleKills, m.bytes,
	} {
		err = errors.Join(err, r.Register(c))
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func newMetrics() *Metrics {
	m := &Metrics{
		sessions:      prometheus.NewGauge(prometheus.GaugeOpts(opts("sessions", "Clients that are authenticated and connected now."))),
		sessionsTotal: counter("sessions_total", "Clients that were authenticated."),
		refused:       counters("refused_connections_total", "Clients that were refused before they were authenticated, by cause; server: the server refused them.", "cause"),
		cancels:       counter("cancels_total", "Cancel requests that were relayed."),
		checks:        counters("checks_total", "Checks of tokens that were sent to the server, by kind.", "kind"),
		checkSeconds:  histogram("check_seconds", "Time from sending a check that stood alone until its answer.", 50*time.Microsecond),
		refusals:      counters("refusals_total", "Statements that were refused, by reason (stale, no token, ...) and resource; resources beyond the first 100 are \"other\".", "reason", "resource"),
		claims:        counters("claims_total", "Claims of tokens for clients, by result.", "result"),
		claimSeconds:  histogram("claim_seconds", "Time of a claim, from its first message to its commit.", time.Millisecond),
		evictions:     counter("evictions_total", "Sessions of older tokens that claims ended."),
		idleKills:     counter("idle_in_transaction_kills_total", "Sessions ended because their transaction was idle for too long."),
		bytes:         counters("bytes_total", "Bytes relayed after authentication, by direction: up to the server, down to clients.", "direction"),
		resources:     labels.New(maxResources),
	}
	m.relay = relay.Metrics{
		Refused: m.refusal, Claims: m.claims, ClaimSeconds: m.claimSeconds, IdleKills: m.idleKills,
		BytesUp: m.bytes.WithLabelValues("up"), BytesDown: m.bytes.WithLabelValues("down"),
	}
	for i, kind := range relay.Kinds() {
		m.relay.Checks[i] = m.checks.WithLabelValues(kind)
	}
	return m
}

// refusal counts a refused statement.
func (m *Metrics) refusal(reason, resource string) {
	m.refusals.WithLabelValues(reason, m.resources.Of(resource)).Inc()
}

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
}

// histogram has buckets from first on, each three times the one before.
func histogram(name, help string, first time.Duration) prometheus.Histogram {
	o := opts(name, help)
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help,
		Buckets: prometheus.ExponentialBuckets(first.Seconds(), 3, 11),
	})
}
