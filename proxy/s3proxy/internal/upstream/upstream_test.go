package upstream

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
)

// An object goes to the store in signed chunks, over TLS too: a store may keep
// what it has of an unsigned one that breaks off, and it breaks off on purpose
// when the client's is wrong.
func TestObjectsAreSigned(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var secure bool
			var signed, host string
			server := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				secure, signed, host = r.TLS != nil, r.Header.Get("X-Amz-Content-Sha256"), r.Host
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("ETag", `"x"`)
			}))
			t.Cleanup(server.Close)
			u, err := New(Config{
				Host: strings.TrimPrefix(server.URL, name+"://"), Secure: name == "https", Region: "us-east-1", AccessKey: "k", SecretKey: "s",
				Transport: server.Client().Transport.(*http.Transport),
			}, Metrics{Seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "s", Help: "seconds"}, []string{"method"})})
			if err != nil {
				t.Fatal(err)
			}
			body := bytes.Repeat([]byte("x"), 2<<20)
			opts := minio.PutObjectOptions{}
			_, err = u.Core.PutObject(t.Context(), "bucket", "k", bytes.NewReader(body), int64(len(body)), "", "", opts)
			if err != nil {
				t.Fatal(err)
			}
			if secure != (name == "https") || signed != "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" || host != u.config.Host {
				t.Errorf("TLS %v, %s, host %s", secure, signed, host)
			}
		})
	}
}
