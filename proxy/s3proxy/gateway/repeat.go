package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/attempt"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// repeat identifies what the request does to a key by what SDKs say of it; false if this
// one says nothing.
func (x *exchange) repeat(key string) (attempt.Request, bool) {
	id := x.r.Header.Get("Amz-Sdk-Invocation-Id")
	if id == "" || x.client == nil {
		return attempt.Request{}, false
	}
	return attempt.Request{Client: x.client.AccessKey, Bucket: x.target.Bucket, Key: key, ID: id}, true
}

// once serves a write, unless an earlier attempt of it lost to an older one. If the answer
// to that was lost it is the SDK that comes again, and its program has not been told: to
// carry it out now would overwrite what that does not know of (I9).
func (x *exchange) once(handle func(*exchange) error) error {
	if x.target.Access != operation.Write {
		return handle(x)
	}
	if err := x.repeated(); err != nil {
		return err
	}
	return x.remembered(x.target.Key, handle(x))
}

// onceEach is once for one of the keys of a request.
func (x *exchange) onceEach(key string, write func() error) error {
	if of, ok := x.repeat(key); ok {
		if e := x.g.repeats.Find(of); e != nil {
			return e
		}
	}
	return x.remembered(key, write())
}

// remembered is err. If it says that an older write came first, so are further attempts told.
func (x *exchange) remembered(key string, err error) error {
	if of, ok := x.repeat(key); ok && errors.Is(err, s3store.ErrOlderWrite) {
		x.g.repeats.Add(of, refusal.Of(err, x.target.Access))
	}
	return err
}

// repeated is the answer to a request of which an earlier attempt was told that it must
// not be repeated: here, or in a 200 by another proxy; nil to any other.
func (x *exchange) repeated() error {
	of, ok := x.repeat(x.target.Key)
	if !ok {
		return nil
	}
	if e := x.g.repeats.Find(of); e != nil {
		return e
	}
	if x.target.Name != operation.CopyObject || attempt.First(x.r.Header) {
		return nil
	}
	_, err := x.g.core.StatObject(x.ctx(), of.Bucket, of.Note(), minio.StatObjectOptions{})
	if r := (minio.ErrorResponse{}); errors.As(err, &r) && r.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return guard.WithOutcome(err, guard.NotApplied)
	}
	return guard.WithOutcome(s3store.ErrOlderWrite, guard.NotApplied)
}

// noteTime bounds how long an answer waits for what keeps it from being repeated.
const noteTime = 10 * time.Second

// tell leaves the note.
func (x *exchange) tell(of attempt.Request) error {
	const text = "A write of an older token came first.\n"
	o := minio.PutObjectOptions{ContentType: "text/plain"}
	o.SetMatchETagExcept("*")
	_, err := x.g.core.PutObject(x.ctx(), of.Bucket, of.Note(), strings.NewReader(text), int64(len(text)), "", "", o)
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
	of, repeats := x.repeat(x.target.Key)
	if repeats {
		x.g.repeats.Add(of, e)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx()), noteTime)
	defer cancel()
	lasting := *x // the client may have gone, and will be back
	lasting.r = x.r.WithContext(ctx)
	switch {
	case x.target.Name == operation.CompleteMultipartUpload:
		if err := lasting.abort(); err != nil {
			x.log("upload was left", err)
		} else {
			e.Message += " The upload was ended."
		}
	case repeats:
		if err := lasting.tell(of); err != nil {
			x.log("other proxies do not know that a copy must not be repeated", err)
		}
	}
}
