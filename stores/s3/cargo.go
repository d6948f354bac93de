package s3store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/frame"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// cargo is what a write puts at a key.
type cargo interface {
	// send sends the one request that makes the write happen, with the header
	// in front of the payload, and reports what is known of it. Every send of
	// one cargo has the same header.
	send(ctx context.Context, h layout.Header, c layout.Condition) (minio.UploadInfo, layout.Reply, error)
	// again reports whether it can be sent once more.
	again() bool
	// whole reports whether an object that has its header is what was sent, by
	// the size of its payload.
	whole(size int64) bool
}

// single is a cargo of one PUT.
type single struct {
	store    *Store
	key      string
	opts     minio.PutObjectOptions
	checksum minio.ChecksumType
	payload  *payload.Payload
}

func (c *single) again() bool { return c.payload.Again() }

// whole: there are servers that keep what they have of a body when the connection
// breaks, see seal.
func (c *single) whole(size int64) bool { return size == c.payload.Size() }

func (c *single) send(ctx context.Context, h layout.Header, cond layout.Condition) (minio.UploadInfo, layout.Reply, error) {
	front := h.Bytes()
	if c.checksum.IsSet() {
		sum := c.checksum.Hasher()
		sum.Write(front)
		if _, err := io.Copy(sum, c.payload.Section()); err != nil {
			return minio.UploadInfo{}, layout.Denied, fmt.Errorf("read payload: %w", err)
		}
		c.opts.UserMetadata[c.checksum.Key()] = base64.StdEncoding.EncodeToString(sum.Sum(nil))
	}
	opts := c.opts
	sum, err := c.seal(ctx, front, &opts)
	if err != nil {
		return minio.UploadInfo{}, layout.Denied, err
	}
	r, err := c.payload.Reader(ctx)
	if err != nil {
		return minio.UploadInfo{}, layout.Denied, err
	}
	defer r.Close()
	request.Condition(&opts, cond)
	ctx, w := request.Watch(ctx)
	size := int64(len(front)) + c.payload.Size()
	b := payload.NewBody(io.MultiReader(bytes.NewReader(front), r), size)
	info, err := c.store.objects.PutObject(ctx, c.store.config.Bucket, c.key, b, size, "", sum, opts)
	unread, failed := b.Stop()
	c.payload.Left(b)
	if failed != nil {
		err = fmt.Errorf("read payload: %w", failed)
	}
	reply, err := w.Outcome(err, unread > 0)
	return frame.Uploaded(info, c.payload.Size()), reply, err
}

// upload is a cargo of several parts. They are uploaded once; what makes the
// write happen is the CompleteMultipartUpload, which can be sent again.
type upload struct {
	parts.Upload

	store    *Store
	payload  *payload.Payload
	first    []byte // the first part, if the payload's size is not known
	partSize int64
}

func (s *Store) newUpload(key string, opts minio.PutObjectOptions, sum minio.ChecksumType, p *payload.Payload, first []byte) (*upload, error) {
	u := &upload{
		Upload: parts.Upload{Bucket: s.parts, Key: key, Options: opts, Checksum: sum},
		store:  s, payload: p, first: first, partSize: s.config.PartSize,
	}
	if p.Size() >= 0 {
		const mib = 1 << 20
		least := (p.Size() + layout.HeaderSize + parts.Most - 1) / parts.Most
		u.partSize = max(u.partSize, (least+mib-1)/mib*mib)
	}
	if u.partSize > parts.MaxSize {
		return nil, fmt.Errorf("payload of %d bytes is too large", p.Size())
	}
	if sum.IsSet() {
		u.Options.UserMetadata["X-Amz-Checksum-Algorithm"] = sum.String()
	}
	return u, nil
}

// again: after a conflict the store may want all parts again.
func (u *upload) again() bool { return u.ID != "" || u.payload.Again() }

func (u *upload) whole(int64) bool { return true }

func (u *upload) send(ctx context.Context, h layout.Header, c layout.Condition) (minio.UploadInfo, layout.Reply, error) {
	if u.ID == "" {
		if err := u.begin(ctx, h); err != nil {
			u.Abort(ctx)
			return minio.UploadInfo{}, layout.Denied, err
		}
	}
	done, reply, err := u.Complete(ctx, nil, c)
	if reply == layout.Accepted {
		_, reply, err = u.store.confirm(ctx, &u.Upload, h, c, done.Proven)
	}
	// A 409 ends the upload, as S3's reference has it; so does somebody's abort.
	switch {
	case reply == layout.Accepted, errors.Is(err, errNotThere) && reply == layout.Denied:
		u.Forget()
	case reply == layout.Denied && (request.IsStatus(err, http.StatusConflict) || request.IsStatus(err, http.StatusNotFound) && !request.IsAbsent(err)):
		u.Abort(ctx)
	}
	return done.UploadInfo, reply, err
}

func (u *upload) begin(ctx context.Context, h layout.Header) error {
	if err := u.store.tested.Uploads(ctx, u.store.parts); err != nil {
		return err
	}
	if err := u.Create(ctx); err != nil {
		return err
	}
	first := u.first
	u.first = nil
	return u.Fill(ctx, u.payload, parts.Filling{Front: h.Bytes(), PartSize: u.partSize, First: first})
}

var errNotThere = errors.New("the server acknowledged an upload that it did not complete")

// confirm looks whether an upload that the server says it has completed is
// there. versitygw says so of any upload that is gone, aborted ones included. If
// something else is there by now, it was overwritten, if the server is to be
// believed: it has proven that it has put the parts together, or it was seen to tell
// of an upload that is gone. The info is that of the object, if it is there.
func (s *Store) confirm(ctx context.Context, u *parts.Upload, h layout.Header, c layout.Condition, proven bool) (minio.ObjectInfo, layout.Reply, error) {
	ctx, cancel := s.settling(ctx)
	defer cancel()
	state, info, err := s.glance(ctx, layout.Grant{}, u.Key)
	switch {
	case err == nil && state.Header == h:
		return info, layout.Accepted, nil
	case err == nil && c.Holds(state):
		if u.Gone(ctx) {
			return minio.ObjectInfo{}, layout.Denied, errNotThere
		}
		return minio.ObjectInfo{}, layout.Lost, errNotThere
	case proven:
		return minio.ObjectInfo{}, layout.Accepted, nil
	}
	if honest, _ := s.tested.Honest(ctx, s.parts); honest {
		return minio.ObjectInfo{}, layout.Accepted, nil
	}
	return minio.ObjectInfo{}, layout.Lost, errors.Join(errNotThere, err)
}
