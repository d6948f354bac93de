package gateway

import (
	"strconv"

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
