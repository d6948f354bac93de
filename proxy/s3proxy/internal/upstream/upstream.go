package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/lane"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// Config is where the store is, and who the proxy is there.
type Config struct {
	// Host is its host:port, and Secure whether it has TLS.
	Host   string
	Secure bool
	// Region, AccessKey and SecretKey are what requests are signed with.
	Region, AccessKey, SecretKey string
	// Transport sends them.
	Transport *http.Transport
}

// Metrics are what is counted of requests to the store.
type Metrics struct {
	// Claims are the writes of marks, by result: ok, lost to another, failed.
	Claims *prometheus.CounterVec
	// Seconds is the time until the store began to answer, by method.
	Seconds *prometheus.HistogramVec
}

// Upstream sends requests to the store.
type Upstream struct {
	// Core is minio-go's client of it.
	Core minio.Core

	config  Config
	metrics Metrics
	signer  *sigv4.Signer
	lanes   *lane.Pool
}

// New returns the way to a store. It asks nothing of it yet.
func New(c Config, m Metrics) (*Upstream, error) {
	u := &Upstream{
		config: c, metrics: m,
		signer: &sigv4.Signer{AccessKey: c.AccessKey, SecretKey: c.SecretKey, Region: c.Region},
		lanes:  lane.New(lanes(c)),
	}
	client, err := minio.New(c.Host, &minio.Options{
		Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""),
		// Not even if it is: minio-go leaves payloads unsigned over TLS, and there
		// are stores (versitygw) that keep what they have of such a one when its
		// connection breaks, as it does on purpose when a client's body is wrong.
		Secure:       false,
		Region:       c.Region,
		BucketLookup: minio.BucketLookupPath,
		Transport:    s3store.Transport(u),
		MaxRetries:   1, // what may be sent again package s3store decides
	})
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	u.Core = minio.Core{Client: client}
	return u, nil
}

// lanes are connections beside those of the transport, with the same settings.
func lanes(c Config) lane.Config {
	t := c.Transport
	l := lane.Config{
		Addr: c.Host, Dial: t.DialContext, HandshakeTimeout: t.TLSHandshakeTimeout, ResponseTimeout: t.ResponseHeaderTimeout,
		IdleTimeout: t.IdleConnTimeout, MaxIdle: t.MaxIdleConnsPerHost,
	}
	if l.Dial == nil {
		l.Dial = new(net.Dialer).DialContext
	}
	if host, port, err := net.SplitHostPort(c.Host); !c.Secure && (err != nil || port == "") {
		l.Addr = net.JoinHostPort(strings.Trim(c.Host, "[]"), "80")
	} else if err != nil || port == "" {
		l.Addr = net.JoinHostPort(strings.Trim(c.Host, "[]"), "443")
	} else {
		l.Addr = net.JoinHostPort(host, port)
	}
	if c.Secure {
		l.TLS = t.TLSClientConfig.Clone()
		if l.TLS == nil {
			l.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		l.TLS.NextProtos = []string{"http/1.1"}
		if l.TLS.ServerName == "" {
			l.TLS.ServerName, _, _ = net.SplitHostPort(l.Addr)
		}
	}
	return l
}

// RoundTrip sends a request that is signed already, over TLS where the store has
// it.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.config.Secure && r.URL.Scheme != "https" {
		r = r.WithContext(r.Context()) // a copy: it is the caller's
		at := *r.URL
		at.Scheme = "https"
		r.URL = &at
	}
	send := u.config.Transport.RoundTrip
	if _, ours := r.Body.(*sigv4.Chunks); ours {
		send = u.lanes.Stream
	}
	res, err := u.observed(r, func() (*http.Response, error) { return send(r) })
	// A claim is one write of a mark, by package s3store.
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/.fence/marks/") {
		result := "failed"
		switch {
		case err != nil:
		case res.StatusCode == http.StatusOK:
			result = "ok"
		case res.StatusCode == http.StatusPreconditionFailed || res.StatusCode == http.StatusConflict:
			result = "lost"
		}
		u.metrics.Claims.WithLabelValues(result).Inc()
	}
	return res, err
}

// observed sends a request, and notes how long the store took until it began to
// answer.
func (u *Upstream) observed(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	begun := time.Now()
	res, err := send()
	u.metrics.Seconds.WithLabelValues(r.Method).Observe(time.Since(begun).Seconds())
	return res, err
}

// Rest closes the connections that nobody uses.
func (u *Upstream) Rest() {
	u.config.Transport.CloseIdleConnections()
	u.lanes.CloseIdle()
}

func (u *Upstream) scheme() string {
	if u.config.Secure {
		return "https"
	}
	return "http"
}

// Probe asks the store for anything, and returns nil if it answers.
func (u *Upstream) Probe(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url("/").String(), http.NoBody)
	if err != nil {
		return err
	}
	res, err := u.config.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection is used again
	return res.Body.Close()
}
