package parts

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Part uploads one part, what comes in front and a payload of known size, again
// if it has to and the payload can be read again: as long as the upload is not
// completed nobody sees it. Of a payload that fails nothing is stored.
func (u *Upload) Part(ctx context.Context, number int, front []byte, p *payload.Payload) (minio.ObjectPart, error) {
	reply := layout.Denied
	for try := 0; ; try++ {
		part, r, err := u.send(ctx, number, front, p)
		if err == nil {
			return part, nil
		}
		reply = reply.Then(r)
		var source *sourceError
		if !errors.As(err, &source) && p.Again() {
			if err = request.GiveUp(ctx, try, err); err == nil {
				continue
			}
		}
		err = fmt.Errorf("upload part %d: %w", number, err)
		if reply == layout.Denied {
			err = guard.WithOutcome(err, guard.NotApplied)
		}
		return minio.ObjectPart{}, err
	}
}

// sourceError is that of a payload that cannot be read.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "read payload: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

func (u *Upload) send(ctx context.Context, number int, front []byte, p *payload.Payload) (minio.ObjectPart, layout.Reply, error) {
	var opts minio.PutObjectPartOptions
	if u.Checksum.IsSet() {
		sum := u.Checksum.Hasher()
		sum.Write(front)
		if _, err := io.Copy(sum, p.Section()); err != nil {
			return minio.ObjectPart{}, layout.Denied, &sourceError{err}
		}
		opts.CustomHeader = http.Header{}
		opts.CustomHeader.Set(u.Checksum.Key(), base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	}
	r, err := p.Reader(ctx)
	if err != nil {
		return minio.ObjectPart{}, layout.Denied, &sourceError{err}
	}
	defer r.Close()
	ctx, w := request.Watch(ctx)
	size := int64(len(front)) + p.Size()
	b := payload.NewBody(io.MultiReader(bytes.NewReader(front), r), size)
	part, err := u.Bucket.Objects.PutObjectPart(ctx, u.Bucket.Name, u.Key, u.ID, number, b, size, opts)
	unread, failed := b.Stop()
	p.Left(b)
	if failed != nil {
		err = &sourceError{failed}
	}
	part.Size = p.Size()
	reply, err := w.Outcome(err, unread > 0)
	return part, reply, err
}
