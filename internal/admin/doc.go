// Package admin is the HTTP listener for those who operate a proxy.
//
//	/healthz       200 while the process runs and answers
//	/readyz        200 if clients can be served now, else 503 with the reasons
//	/metrics       what is counted, for Prometheus
//	/debug/pprof/  the profiles of Go, only if asked for
//
// It has no authentication and no TLS: it is meant for a loopback address, or
// for a network that only those who operate the proxy can reach.
package admin
