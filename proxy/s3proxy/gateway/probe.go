package gateway

import (
	"context"
	"io"
	"net/http"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
)

// Probe asks the store for anything, and returns nil if it answers.
func (g *Gateway) Probe(ctx context.Context) error {
	scheme := "http://"
	if g.config.Upstream.Secure {
		scheme = "https://"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+g.config.Upstream.Host+"/", http.NoBody)
	if err != nil {
		return err
	}
	res, err := g.config.Upstream.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, netDrain) // so that the connection is used again
	return res.Body.Close()
}

// Busy answers a request on a connection that is one too many.
func Busy(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Content-Type", "application/xml")
	w.WriteHeader(refusal.SlowDown.Status())
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(s3xml.Encode(s3xml.Error{
		Code: string(refusal.SlowDown), Message: "There are too many connections. Please reduce your request rate.", Resource: r.URL.Path,
	}))
}
