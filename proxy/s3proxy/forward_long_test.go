package s3proxy

import (
	"math"
	"net/http"
	"testing"
)

// What is longer than S3 lets a request be is not begun. Around the longest there is no
// room for the lengths of chunks, and without its length a body is further requests.
func TestForwardTooLong(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.allowing(t)
	for _, size := range []int{5<<30 + 1, math.MaxInt64} {
		for _, target := range []string{"/free", "/free?partNumber=1&uploadId=x"} {
			conn := p.dial(t)
			conn.head(p, http.MethodPut, "/"+e.bucket+target, size, nil)
			if status, code := conn.answer(); status != http.StatusBadRequest || code != "EntityTooLarge" {
				t.Errorf("%d bytes to %s: %d %s", size, target, status, code)
			}
		}
	}
}
