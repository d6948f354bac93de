package s3proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Answers of all sizes, one behind another and many at once, some of which are broken
// off by their clients: each that comes is whole, and of the object that was asked for.
func TestAttackMixed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	sizes := []int{0, 1, 100, 8000, 8191, 8192, 8193, 16 << 10, 16<<10 + 1, 100 << 10, 1 << 20, 1<<20 + 77, 5 << 20}
	values := make([]string, len(sizes))
	app := p.app(t, token(33))
	for i, size := range sizes {
		values[i] = strings.Repeat(fmt.Sprintf("%d of %d; ", i, size), size/8+1)[:size]
		put(t, app, e.bucket, fmt.Sprint(i), values[i])
	}
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			for range 12 {
				conn := p.dial(t)
				var asked []int
				var b strings.Builder
				for range 1 + rand.IntN(6) {
					i := rand.IntN(len(sizes))
					method := http.MethodGet
					if rand.IntN(4) == 0 {
						method, i = http.MethodHead, -1-i
					}
					asked = append(asked, i)
					b.WriteString(rawRequest(t, p, request{method: method, target: "/" + e.bucket + "/" + fmt.Sprint(max(i, -1-i))}, ""))
				}
				_, _ = io.WriteString(conn, b.String())
				for _, i := range asked {
					if rand.IntN(8) == 0 {
						break // and hangs up
					}
					mixed(t, conn, i, values)
				}
				conn.Close()
			}
		})
	}
	clients.Wait()
	eventually(t, "nobody is left", func() bool { return gauge(t, p.metrics.connections) <= 1 && gauge(t, p.metrics.inFlight) == 0 })
}

// mixed reads the answer to a GET of value i, or a HEAD of value -1-i.
func mixed(t *testing.T, conn *raw, i int, values []string) {
	method, want := http.MethodGet, values[max(i, -1-i)]
	length := len(want)
	if i < 0 {
		method, want = http.MethodHead, ""
	}
	res, err := http.ReadResponse(conn.in, &http.Request{Method: method})
	if err != nil {
		t.Error(err)
		return
	}
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.ContentLength != int64(length) || string(got) != want {
		t.Errorf("%s of %d bytes: %d, %d bytes of %d, %v", method, length, res.StatusCode, len(got), res.ContentLength, err)
	}
}
