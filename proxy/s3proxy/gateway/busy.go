package gateway

import (
	"net/http"
	"strconv"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
)

// Busy answers a request on a connection that is one too many.
func Busy(w *http1.Response, r *http.Request) {
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Content-Type", "application/xml")
	data := s3xml.Encode(s3xml.Error{
		Code: string(refusal.SlowDown), Message: "There are too many connections. Please reduce your request rate.", Resource: r.URL.Path,
	})
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(refusal.SlowDown.Status())
	_, _ = w.Write(data)
}
