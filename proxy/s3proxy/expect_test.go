package s3proxy

import (
	"net/http"
	"strings"
	"testing"
)

// Whoever waits for leave to send nothing gets it, as from S3. Without it boto3's
// next write on the connection hung for a minute.
func TestExpectContinueEmpty(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	c := p.dial(t)
	for range 2 {
		c.head(p, http.MethodPut, "/"+e.bucket+"/k", 0, carrying(t, token(34), map[string]string{"Expect": "100-continue"}))
		line, err := c.in.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Fatalf("%q, %v", line, err)
		}
		if line, err = c.in.ReadString('\n'); err != nil || line != "\r\n" {
			t.Fatalf("behind 100: %q, %v", line, err)
		}
		if status, code := c.answer(); status != 200 {
			t.Fatalf("%d %s", status, code)
		}
	}
}
