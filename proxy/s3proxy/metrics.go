package s3proxy

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/internal/labels"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway"
)

const (
	namespace    = "fenceproxy"
	subsystem    = "s3"
	maxResources = 100 // label values of resource; then labels.Other
)

// Metrics are what servers count, for Prometheus. Make them with NewMetrics.
type Metrics struct {
	connections        prometheus.Gauge
	refusedConnections prometheus.Counter
	inFlight           prometheus.Gauge
	requests           *prometheus.CounterVec   // operation, class
	refusals           *prometheus.CounterVec   // reason, resource
	claims             *prometheus.CounterVec   // result
	upstreamSeconds    *prometheus.HistogramVec // method
	bytes              *prometheus.CounterVec   // direction

	gateway gateway.Metrics // those of them that requests count

	resources *labels.Bounded // clients choose them
}

// NewMetrics makes metrics and registers them. To tell several servers apart,
// give each its own, with a label of its own:
// prometheus.WrapRegistererWith(prometheus.Labels{"listener": name}, r).
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := newMetrics()
	var err error
	for _, c := range []prometheus.Collector{
		m.connections, m.refusedConnections, m.inFlight, m.requests, m.refusals, m.claims, m.upstreamSeconds, m.bytes,
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
		connections:        prometheus.NewGauge(prometheus.GaugeOpts(opts("connections", "Connections of clients that are open now."))),
		refusedConnections: prometheus.NewCounter(prometheus.CounterOpts(opts("refused_connections_total", "Connections that were more than max_connections."))),
		inFlight:           prometheus.NewGauge(prometheus.GaugeOpts(opts("requests_in_flight", "Requests that are being served now."))),
		requests:           counters("requests_total", "Requests that were answered, by operation and class of status (2xx).", "operation", "class"),
		refusals:           counters("refusals_total", "Requests that the fence refused, by reason (stale token, no token, ...) and resource; resources beyond the first 100 are \"other\".", "reason", "resource"),
		claims:             counters("claims_total", "Writes of marks, by which tokens are claimed for clients, by result; lost: to another one, and tried again.", "result"),
		bytes:              counters("bytes_total", "Bytes of bodies, by direction: up from clients, down to them.", "direction"),
		resources:          labels.New(maxResources),
	}
	o := opts("upstream_seconds", "Time from a request to the store until its answer began, by method.")
	m.upstreamSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help,
		Buckets: prometheus.ExponentialBuckets(time.Millisecond.Seconds(), 3, 11),
	}, []string{"method"})
	m.gateway = gateway.Metrics{
		Requests: m.requests, InFlight: m.inFlight, Refused: m.refusal, Claims: m.claims, UpstreamSeconds: m.upstreamSeconds,
		BytesUp: m.bytes.WithLabelValues("up"), BytesDown: m.bytes.WithLabelValues("down"),
	}
	return m
}

// refusal counts a refused request.
func (m *Metrics) refusal(reason, resource string) {
	m.refusals.WithLabelValues(reason, m.resources.Of(resource)).Inc()
}

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
}
