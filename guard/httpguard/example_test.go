package httpguard_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/guard/httpguard"
	"github.com/fenceproxy/fenceproxy/guard/memory"
)

// A document is kept by one holder at a time. The one who lost the lock during
// a pause is refused.
func Example() {
	fence, err := memory.New(memory.Config{})
	if err != nil {
		panic(err)
	}
	middleware, err := httpguard.New(fence, httpguard.Config{
		Resource: func(r *http.Request) (string, error) { return strings.TrimPrefix(r.URL.Path, "/"), nil },
	})
	if err != nil {
		panic(err)
	}
	document := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "saved") })
	server := httptest.NewServer(middleware.Handler(document))
	defer server.Close()

	for _, number := range []int64{33, 34, 33} {
		request, err := http.NewRequest(http.MethodPut, server.URL+"/report", http.NoBody)
		if err != nil {
			panic(err)
		}
		token := guard.Token{Resource: "report", Number: number, Mode: guard.Exclusive}
		if err := carrier.SetHeader(request.Header, token); err != nil {
			panic(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		fmt.Println(number, response.StatusCode, strings.TrimSpace(string(body)))
	}
	// Output:
	// 33 200 saved
	// 34 200 saved
	// 33 412 {"code":"FenceTokenStale","reason":"stale token","resource":"report","mark":{"generation":0,"issuer":"","writer":"34","reader":"0"}}
}
