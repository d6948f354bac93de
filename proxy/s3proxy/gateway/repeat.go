package gateway

import (
	"errors"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

const (
	// An SDK has given up repeating a request by then.
	repeatTime = 15 * time.Minute
	maxRepeats = 4096
)

// repeats are the requests that SDKs must not repeat by themselves and may all the
// same: botocore and aws-sdk-go-v2 take whatever error comes in a 200 for one of
// the store's. All attempts of a request have one id, so the next one is told again,
// with the status that ends them.
type repeats struct {
	mu sync.Mutex
	m  map[repeat]told
}

// repeat is what the attempts of one request have in common.
type repeat struct{ client, bucket, key, id string }

type told struct {
	answer *refusal.Error
	at     time.Time
}

func (r *repeats) find(of repeat) *refusal.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok := r.m[of]; ok && time.Since(t.at) < repeatTime {
		return t.answer
	}
	return nil
}

func (r *repeats) add(of repeat, e *refusal.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = make(map[repeat]told)
	}
	for old, t := range r.m {
		if len(r.m) >= maxRepeats || time.Since(t.at) >= repeatTime {
			delete(r.m, old)
		}
	}
	r.m[of] = told{e, time.Now()}
}

// repeat identifies the request by what SDKs say of it; false if this one says
// nothing.
func (x *exchange) repeat() (repeat, bool) {
	id := x.r.Header.Get("Amz-Sdk-Invocation-Id")
	if id == "" || x.client == nil {
		return repeat{}, false
	}
	return repeat{x.client.AccessKey, x.target.Bucket, x.target.Key, id}, true
}

// repeated is the answer to a request of which an earlier attempt was told late
// that it must not be repeated; nil to any other.
func (x *exchange) repeated() error {
	if of, ok := x.repeat(); ok {
		if e := x.g.repeats.find(of); e != nil {
			return e
		}
	}
	return nil
}

// notAgain sees to it that a write which lost to an older one, and is told so in a
// 200, is not repeated unseen (I9). There may be other proxies: a completion finds
// its upload gone.
func (x *exchange) notAgain(err error, e *refusal.Error) {
	if !errors.Is(err, s3store.ErrOlderWrite) {
		return
	}
	if x.target.Name == operation.CompleteMultipartUpload {
		if err := x.abort(); err != nil {
			x.log("upload was left", err)
		} else {
			e.Message += " The upload was ended."
		}
	}
	if of, ok := x.repeat(); ok {
		x.g.repeats.add(of, e)
	}
}
