// Package marks reads and changes the mark objects of a bucket.
package marks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Bucket is where the marks are.
type Bucket struct {
	Core minio.Core
	Name string
}

// Change reads the mark of resource and replaces it by what change makes of it,
// if nobody else has in between, over and over until one of the two is done or
// ctx ends. It returns the mark that is there then.
func (b Bucket) Change(ctx context.Context, resource string,
	change func(layout.MarkObject) (layout.MarkObject, bool, error),
) (guard.Mark, error) {
	reply := layout.Denied // to whatever was sent
	for try := 0; ; try++ {
		o, etag, err := b.Read(ctx, resource)
		if err == nil {
			after, changed, no := change(o)
			if no != nil {
				return o.Mark, notApplied(no)
			}
			if changed {
				var r layout.Reply
				r, err = b.write(ctx, after, etag)
				reply = reply.Then(r)
			}
			if err == nil {
				return after.Mark, nil
			}
			if request.Overtaken(err) {
				try = 0 // somebody else was faster, and has come further
			}
		}
		if err = request.GiveUp(ctx, try, err); err != nil {
			if reply == layout.Lost {
				return o.Mark, guard.WithOutcome(err, guard.Unknown)
			}
			return o.Mark, notApplied(err)
		}
	}
}

func notApplied(err error) error {
	if guard.OutcomeOf(err) == guard.Refused {
		return err
	}
	return guard.WithOutcome(err, guard.NotApplied)
}

// Read returns the mark object of resource with its ETag, both zero but for the
// name if there is none.
func (b Bucket) Read(ctx context.Context, resource string) (layout.MarkObject, string, error) {
	none := layout.MarkObject{Resource: resource}
	body, info, _, err := b.Core.GetObject(ctx, b.Name, layout.MarkKey(resource), minio.GetObjectOptions{})
	if request.IsAbsent(err) {
		return none, "", nil
	}
	if err != nil {
		return none, "", fmt.Errorf("read mark of %q: %w", resource, err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, layout.MaxMarkSize+1))
	if err != nil {
		return none, "", fmt.Errorf("read mark of %q: %w", resource, err)
	}
	o, err := layout.ParseMark(data, resource)
	if err == nil && info.ETag == "" { // it could never be replaced
		err = &guard.RefusedError{Reason: fmt.Errorf("%w: %w", guard.ErrUnsupported, request.ErrNoETag)}
	}
	if err != nil {
		return none, "", fmt.Errorf("read mark of %q: %w", resource, err)
	}
	return o, info.ETag, nil
}

func (b Bucket) write(ctx context.Context, o layout.MarkObject, etag string) (layout.Reply, error) {
	data := o.Bytes()
	if len(data) > layout.MaxMarkSize {
		return layout.Denied, fmt.Errorf("mark of %q: too many issuers", o.Resource)
	}
	opts := minio.PutObjectOptions{ContentType: "application/json"}
	request.Condition(&opts, layout.Condition{ETag: etag})
	ctx, w := request.Watch(ctx)
	body := payload.NewBody(bytes.NewReader(data), int64(len(data)))
	sum := sha256.Sum256(data) // with TLS minio-go signs nothing else of it, and a server may keep a part
	_, err := b.Core.PutObject(ctx, b.Name, layout.MarkKey(o.Resource), body, int64(len(data)), "", hex.EncodeToString(sum[:]), opts)
	unread, _ := body.Stop()
	reply, err := w.Outcome(err, unread > 0)
	if err != nil {
		err = fmt.Errorf("write mark of %q: %w", o.Resource, err)
	}
	return reply, err
}
