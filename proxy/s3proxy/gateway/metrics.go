package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what a gateway counts.
type Metrics struct {
	// Requests that were answered, by operation and class of status: 2xx.
	Requests *prometheus.CounterVec
	// InFlight are the requests that are being served.
	InFlight prometheus.Gauge
	// Refused counts a request that the fence refused.
	Refused func(reason, resource string)
	// Claims are the claims for clients, by result: ok, lost, failed.
	Claims *prometheus.CounterVec
	// UpstreamSeconds is the time until the store began to answer, by method.
	UpstreamSeconds *prometheus.HistogramVec
	// BytesUp and BytesDown are the bytes of bodies from and to clients.
	BytesUp, BytesDown prometheus.Counter
}

func class(status int) string { return strconv.Itoa(status/100) + "xx" }

// upstream is the way to the store, with what it takes counted.
func (g *Gateway) upstream() http.RoundTripper {
	return &upstream{g.config.Upstream.Transport, g.metrics}
}

type upstream struct {
	transport *http.Transport
	metrics   *Metrics
}

// RoundTrip sends a request to the store.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	begun := time.Now()
	res, err := u.transport.RoundTrip(r)
	u.metrics.UpstreamSeconds.WithLabelValues(r.Method).Observe(time.Since(begun).Seconds())
	// A claim is one write of a mark, by package s3store.
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/.fence/marks/") {
		result := "failed"
		switch {
		case err != nil:
		case res.StatusCode == http.StatusOK:
			result = "ok"
		case res.StatusCode == http.StatusPreconditionFailed || res.StatusCode == http.StatusConflict:
			result = "lost" // to another, and read again
		}
		u.metrics.Claims.WithLabelValues(result).Inc()
	}
	return res, err
}
