package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
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
	of, ok := x.repeat()
	if !ok {
		return nil
	}
	if e := x.g.repeats.find(of); e != nil {
		return e
	}
	if x.target.Name != operation.CopyObject || first(x.r.Header) {
		return nil
	}
	_, err := x.g.core.StatObject(x.ctx(), of.bucket, of.note(), minio.StatObjectOptions{})
	if r := (minio.ErrorResponse{}); errors.As(err, &r) && r.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return guard.WithOutcome(err, guard.NotApplied)
	}
	return guard.WithOutcome(s3store.ErrOlderWrite, guard.NotApplied)
}

// first reports whether an SDK says that it makes its first attempt.
func first(h http.Header) bool {
	for field := range strings.SplitSeq(h.Get("Amz-Sdk-Request"), ";") {
		if strings.TrimSpace(field) == "attempt=1" {
			return true
		}
	}
	return false
}

// note is the key of an object that tells the other proxies that the request must not
// be repeated. It is one of the fence's own, and may be removed when the SDK has given up.
func (of repeat) note() string {
	sum := sha256.New()
	for _, part := range []string{of.client, of.bucket, of.key, of.id} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return ".fence/told/" + hex.EncodeToString(sum.Sum(nil))
}

// noteTime bounds how long an answer waits for its note.
const noteTime = 10 * time.Second

// tell leaves the note, even if the client has gone: it will be back.
func (x *exchange) tell(of repeat) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx()), noteTime)
	defer cancel()
	const text = "A write of an older token came first.\n"
	o := minio.PutObjectOptions{ContentType: "text/plain"}
	o.SetMatchETagExcept("*")
	_, err := x.g.core.PutObject(ctx, of.bucket, of.note(), strings.NewReader(text), int64(len(text)), "", "", o)
	if r := (minio.ErrorResponse{}); errors.As(err, &r) && r.StatusCode == http.StatusPreconditionFailed {
		return nil // it is there
	}
	return err
}

// notAgain sees to it that a write which lost to an older one, and is told so in a
// 200, is not repeated unseen (I9), be it at another proxy: a completion finds its
// upload gone there, and a copy its note.
func (x *exchange) notAgain(err error, e *refusal.Error) {
	if !errors.Is(err, s3store.ErrOlderWrite) {
		return
	}
	of, repeats := x.repeat()
	if repeats {
		x.g.repeats.add(of, e)
	}
	switch {
	case x.target.Name == operation.CompleteMultipartUpload:
		if err := x.abort(); err != nil {
			x.log("upload was left", err)
		} else {
			e.Message += " The upload was ended."
		}
	case repeats:
		if err := x.tell(of); err != nil {
			x.log("other proxies do not know that a copy must not be repeated", err)
		}
	}
}
