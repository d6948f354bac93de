// Package attempt knows which requests are attempts of one, and remembers what an
// earlier attempt was told.
package attempt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
)

const (
	// An SDK has given up repeating a request by then.
	keep = 15 * time.Minute
	most = 4096
)

// Memory remembers the requests that SDKs must not repeat by themselves and may all the
// same: botocore and aws-sdk-go-v2 take whatever error comes in a 200 for one of
// the store's. All attempts of a request have one id, so the next one is told again,
// with the status that ends them. The zero value is ready for use.
type Memory struct {
	mu sync.Mutex
	m  map[Request]told
}

// Request is what the attempts of one request have in common: who makes it, of what,
// and the id that the SDK gives it.
type Request struct{ Client, Bucket, Key, ID string }

type told struct {
	answer *refusal.Error
	at     time.Time
}

// Find returns what an attempt of the request was told; nil if it is not known.
func (r *Memory) Find(of Request) *refusal.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok := r.m[of]; ok && time.Since(t.at) < keep {
		return t.answer
	}
	return nil
}

// Add remembers what an attempt of the request is told.
func (r *Memory) Add(of Request, e *refusal.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = make(map[Request]told)
	}
	for old, t := range r.m {
		if len(r.m) >= most || time.Since(t.at) >= keep {
			delete(r.m, old)
		}
	}
	r.m[of] = told{e, time.Now()}
}

// First reports whether an SDK says that it makes its first attempt.
func First(h http.Header) bool {
	for field := range strings.SplitSeq(h.Get("Amz-Sdk-Request"), ";") {
		if strings.TrimSpace(field) == "attempt=1" {
			return true
		}
	}
	return false
}

// Note is the key of an object that tells the other proxies that the request must not
// be repeated. It is one of the fence's own, and may be removed when the SDK has given up.
func (of Request) Note() string {
	sum := sha256.New()
	for _, part := range []string{of.Client, of.Bucket, of.Key, of.ID} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return ".fence/told/" + hex.EncodeToString(sum.Sum(nil))
}
