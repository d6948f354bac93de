package s3store

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
)

// hasty is a way to a server that acknowledges long bodies when it has read the first
// bytes of them, and reads no more.
func hasty(t *testing.T, s *testenv.S3Server) (addr string) {
	t.Helper()
	target, err := url.Parse("http://" + s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	on := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which is signed
	}}
	done := make(chan struct{})
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.ContentLength < parts.MinSize {
			on.ServeHTTP(w, r)
			return
		}
		_, _ = io.ReadFull(r.Body, make([]byte, 16))
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("ETag", `"made-up"`)
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-done
	}))
	t.Cleanup(func() { close(done); way.Close() })
	return way.Listener.Addr().String()
}

// A server that acknowledges a body of which it has not got all is not believed: of the
// rest nobody has seen that it is what the caller meant.
func TestAcknowledgedEarly(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	mustPut(t, e.store, writer(33), "k", "old")
	store, err := New(e.server.ClientAt(t, hasty(t, e.server)), Config{Bucket: e.bucket, UploadKey: []byte("of nobody else")})
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	if _, err = store.Put(t.Context(), writer(33), "k", streamed{bytes.NewReader(make([]byte, size))}, size, PutOptions{}); err == nil || guard.OutcomeOf(err) == guard.Applied {
		t.Errorf("put: %v (%v)", err, guard.OutcomeOf(err))
	}
	expectValue(t, e.store, writer(33), "k", "old")
	id, err := store.CreateUpload(t.Context(), writer(33), "k", PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.UploadPart(t.Context(), writer(33), "k", id, 1, streamed{bytes.NewReader(make([]byte, size))}, size); err == nil || guard.OutcomeOf(err) == guard.Applied {
		t.Errorf("part: %v (%v)", err, guard.OutcomeOf(err))
	}
}
