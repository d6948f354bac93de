package s3proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
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

// Who waits for leave to send a body waits a second or so, and a busy proxy
// answers later. Then it reads its answer while it sends: the connection was reset
// under it, and SDKs took that for an accident and tried again.
func TestExpectContinueTooLate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.overtaken(t)
	body := make([]byte, 16<<20)
	for range 10 {
		c := p.dial(t)
		c.head(p, http.MethodPut, "/"+e.bucket+"/k", len(body), carrying(t, token(33), map[string]string{"Expect": "100-continue"}))
		if _, err := c.Write(body); err != nil {
			t.Error(err)
		}
		if status, code := c.answer(); status != 412 || code != "FenceTokenStale" {
			t.Errorf("%d %s", status, code)
		}
		c.ended()
	}

	// Who does wait is not kept waiting.
	c := p.dial(t)
	begun := time.Now()
	c.head(p, http.MethodPut, "/"+e.bucket+"/k", len(body), carrying(t, token(33), map[string]string{"Expect": "100-continue"}))
	if status, code := c.answer(); status != 412 || code != "FenceTokenStale" {
		t.Errorf("%d %s", status, code)
	}
	if d := time.Since(begun); d > 30*time.Second {
		t.Errorf("answered after %v", d)
	}
}
