package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// Client is a client of the bucket that repeats nothing, with a session token or
// "", and what ends it.
func (b Bucket) Client(session string) (*minio.Client, func(), error) {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	client, err := minio.New(b.Endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(b.AccessKey, b.SecretKey, session),
		Region: b.Region, BucketLookup: minio.BucketLookupPath, Transport: transport, MaxRetries: 1,
	})
	return client, transport.CloseIdleConnections, err
}

// Objects are small, and parts no larger: what is looked for is what is left of
// them, not how fast they are.
const objectSize = 32 << 10

func payload(dice *rand.Rand) []byte {
	body := make([]byte, 1+dice.IntN(objectSize))
	for i := range body {
		body[i] = byte(dice.Uint32())
	}
	return body
}

// upload is what a way does with an upload in parts.
type upload struct {
	create   func() (id string, err error)
	part     func(id string, body []byte) (minio.CompletePart, error)
	complete func(id string, part minio.CompletePart) error
}

// run makes an object of one part, or leaves it without its end.
func (u upload) run(dice *rand.Rand, finish bool) error {
	id, err := u.create()
	if err != nil {
		return err
	}
	part, err := u.part(id, payload(dice))
	if err != nil || !finish {
		return err
	}
	return u.complete(id, part)
}

// uploadKey is what all processes seal uploads with.
var uploadKey = []byte("a key of thirty-two bytes of ours")

type s3StoreWay struct {
	store *s3store.Store
	end   func()
}

func openS3Store(_ context.Context, job Job) (way, error) {
	client, end, err := job.S3.Client("")
	if err != nil {
		return nil, err
	}
	store, err := s3store.New(client, s3store.Config{Bucket: job.S3.Name, UploadKey: uploadKey})
	if err != nil {
		return nil, err
	}
	return &s3StoreWay{store, end}, nil
}

func (w *s3StoreWay) close() { w.end() }

func (w *s3StoreWay) enter(ctx context.Context, token guard.Token) (tenure, error) {
	return &s3StoreTenure{w, token}, w.store.Claim(ctx, token)
}

type s3StoreTenure struct {
	*s3StoreWay
	token guard.Token
}

func (t *s3StoreTenure) leave() {}

func (t *s3StoreTenure) key() string { return "work/" + t.token.Resource }

func (t *s3StoreTenure) write(ctx context.Context, dice *rand.Rand) error {
	switch dice.IntN(10) {
	case 0:
		err := t.store.Delete(ctx, t.token, t.key(), s3store.DeleteOptions{})
		if errors.Is(err, s3store.ErrNotFound) {
			return nil
		}
		return err
	case 1:
		return t.upload(ctx).run(dice, true)
	case 2:
		object, err := t.store.Get(ctx, t.token, t.key(), s3store.GetOptions{})
		if errors.Is(err, s3store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, object)
		return errors.Join(err, object.Close())
	default:
		body := payload(dice)
		_, err := t.store.Put(ctx, t.token, t.key(), bytes.NewReader(body), int64(len(body)), s3store.PutOptions{})
		return err
	}
}

func (t *s3StoreTenure) abandon(ctx context.Context, dice *rand.Rand) error {
	return t.upload(ctx).run(dice, false)
}

func (t *s3StoreTenure) upload(ctx context.Context) upload {
	return upload{
		create: func() (string, error) { return t.store.CreateUpload(ctx, t.token, t.key(), s3store.PutOptions{}) },
		part: func(id string, body []byte) (minio.CompletePart, error) {
			part, err := t.store.UploadPart(ctx, t.token, t.key(), id, 1, bytes.NewReader(body), int64(len(body)))
			return minio.CompletePart{PartNumber: 1, ETag: part.ETag}, err
		},
		complete: func(id string, part minio.CompletePart) error {
			_, err := t.store.CompleteUpload(ctx, t.token, t.key(), id, []minio.CompletePart{part}, s3store.CompleteOptions{})
			return err
		},
	}
}

// s3ProxyWay has a client for each holder, whose session token is the token.
type s3ProxyWay struct{ bucket Bucket }

func openS3Proxy(_ context.Context, job Job) (way, error) { return &s3ProxyWay{job.S3Proxy}, nil }

func (w *s3ProxyWay) close() {}

func (w *s3ProxyWay) enter(_ context.Context, token guard.Token) (tenure, error) {
	client, end, err := w.bucket.Client(token.String())
	if err != nil {
		return nil, err
	}
	return &s3ProxyTenure{minio.Core{Client: client}, w.bucket.Name, "work/" + token.Resource, end}, nil
}

type s3ProxyTenure struct {
	core        minio.Core
	bucket, key string
	end         func()
}

func (t *s3ProxyTenure) leave() { t.end() }

func (t *s3ProxyTenure) write(ctx context.Context, dice *rand.Rand) error {
	switch dice.IntN(10) {
	case 0:
		return toldS3(t.core.RemoveObject(ctx, t.bucket, t.key, minio.RemoveObjectOptions{}))
	case 1:
		return toldS3(t.upload(ctx).run(dice, true))
	case 2:
		object, _, _, err := t.core.GetObject(ctx, t.bucket, t.key, minio.GetObjectOptions{})
		if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
			return nil
		}
		if err != nil {
			return toldS3(err)
		}
		_, err = io.Copy(io.Discard, object)
		return errors.Join(err, object.Close())
	default:
		body := payload(dice)
		_, err := t.core.PutObject(ctx, t.bucket, t.key, bytes.NewReader(body), int64(len(body)), "", "", minio.PutObjectOptions{})
		return toldS3(err)
	}
}

func (t *s3ProxyTenure) abandon(ctx context.Context, dice *rand.Rand) error {
	return toldS3(t.upload(ctx).run(dice, false))
}

func (t *s3ProxyTenure) upload(ctx context.Context) upload {
	return upload{
		create: func() (string, error) {
			return t.core.NewMultipartUpload(ctx, t.bucket, t.key, minio.PutObjectOptions{})
		},
		part: func(id string, body []byte) (minio.CompletePart, error) {
			part, err := t.core.PutObjectPart(ctx, t.bucket, t.key, id, 1, bytes.NewReader(body), int64(len(body)), minio.PutObjectPartOptions{})
			return minio.CompletePart{PartNumber: 1, ETag: part.ETag}, err
		},
		complete: func(id string, part minio.CompletePart) error {
			_, err := t.core.CompleteMultipartUpload(ctx, t.bucket, t.key, id, []minio.CompletePart{part}, minio.PutObjectOptions{})
			return err
		},
	}
}

// toldS3 is err as a refusal, if it is one.
func toldS3(err error) error {
	if err == nil {
		return nil
	}
	if r, ok := carrier.RefusalByCode(minio.ToErrorResponse(err).Code); ok {
		return fmt.Errorf("%w: %w", &guard.RefusedError{Reason: r.Reason}, err)
	}
	return err
}
