package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/guard/httpguard"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

// BenchmarkHandler is what the middleware adds to a request, without network.
func BenchmarkHandler(b *testing.B) {
	g, err := memory.New(memory.Config{})
	if err != nil {
		b.Fatal(err)
	}
	m, err := httpguard.New(g, httpguard.Config{Resource: orders})
	if err != nil {
		b.Fatal(err)
	}
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodPut, "/", http.NoBody)
	if err := carrier.SetHeader(r.Header, token(34)); err != nil {
		b.Fatal(err)
	}
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
	if w.Code != http.StatusOK {
		b.Fatal(w.Code)
	}
}
