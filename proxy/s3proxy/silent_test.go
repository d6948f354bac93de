package s3proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A store that says nothing keeps nobody for ever: reads are told that it cannot be
// reached, and writes that nobody knows; and when it is back all goes on.
func TestSilentStore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	link := testenv.NewLink(t, e.store.Endpoint(), testenv.LinkConfig{})
	c := e.config()
	c.Upstream.Endpoint, c.Upstream.ResponseTimeout = "http://"+link.Addr(), 3*time.Second
	p := start(t, c)
	app := p.app(t, token(33))
	put(t, app, e.bucket, "k", "v")
	link.Freeze()
	for _, r := range []struct {
		method string
		size   int
		status []int
	}{
		{http.MethodGet, 0, []int{http.StatusServiceUnavailable}},
		{http.MethodPut, 3, []int{http.StatusServiceUnavailable, http.StatusInternalServerError}},
		{http.MethodDelete, 0, []int{http.StatusServiceUnavailable, http.StatusInternalServerError}},
	} {
		begun := time.Now()
		res, body := p.do(t, r.method, "/"+e.bucket+"/k", strings.Repeat("n", r.size), carrying(t, token(33), nil))
		if res.StatusCode != r.status[0] && res.StatusCode != r.status[len(r.status)-1] {
			t.Errorf("%s: %d %s", r.method, res.StatusCode, body)
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("%s took %v", r.method, took)
		}
	}
	link.Thaw()
	put(t, app, e.bucket, "k", "after")
	expectValue(t, app, e.bucket, "k", "after")
}
