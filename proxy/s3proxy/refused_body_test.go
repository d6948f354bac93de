package s3proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whoever is refused is told so though most of its body has not come, and does not wait
// for the time that a body has. When the rest has come the next request is answered on
// the same connection.
func TestRefusedBeforeBody(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.overtaken(t)
	_, err := tryPut(t, p.app(t, token(33)), e.bucket, "k", "stale")
	refused(t, "from now on the proxy knows", err, 412, "FenceTokenStale")
	target := "/" + e.bucket + "/k"
	for name, r := range map[string]struct {
		target string
		header map[string]string
		status int
		code   string
	}{
		"stale":      {target, carrying(t, token(33)), 412, "FenceTokenStale"},
		"no token":   {target, nil, 403, "FenceTokenMissing"},
		"elsewhere":  {"/not-" + e.bucket + "/k", carrying(t, token(34)), 403, "AccessDenied"},
		"not served": {target + "?versionId=1", carrying(t, token(34)), 501, "NotImplemented"},
	} {
		for _, size := range []int{1, 200, 256 << 10} {
			c := p.dial(t)
			body := strings.Repeat("x", size)
			for range 2 {
				c.head(p, http.MethodPut, r.target, size, r.header)
				_, _ = io.WriteString(c, body[:size/2])
				begun := time.Now()
				if status, code := c.answer(); status != r.status {
					t.Errorf("%s, %d bytes: %d %s", name, size, status, code)
				} else if code != r.code {
					t.Errorf("%s, %d bytes: %s", name, size, code)
				}
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("%s, %d bytes: answered after %v", name, size, took)
				}
				_, _ = io.WriteString(c, body[size/2:])
				c.head(p, http.MethodGet, target, 0, carrying(t, token(34)))
				if status, code := c.answer(); status != 200 {
					t.Errorf("%s, %d bytes: then %d %s", name, size, status, code)
				}
			}
		}
	}
	expectValue(t, p.app(t, token(34)), e.bucket, "k", "v")
}
