package ways

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// s3storeWay goes in by package s3store.
type s3storeWay struct {
	store *s3store.Store
	close func()
}

func openS3Store(a Access, _ *rand.Rand) (Way, error) {
	client, end, err := a.S3.Client()
	if err != nil {
		return nil, err
	}
	store, err := s3store.New(client, s3store.Config{Bucket: a.S3.Bucket})
	if err != nil {
		return nil, err
	}
	return &s3storeWay{store, end}, nil
}

// Client is a client of the bucket that repeats nothing, and what ends it.
func (b Bucket) Client() (*minio.Client, func(), error) { return b.clientWith("") }

// clientWith is Client with a session token.
func (b Bucket) clientWith(session string) (*minio.Client, func(), error) {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, ResponseHeaderTimeout: 30 * time.Second}
	client, err := minio.New(b.Endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(b.AccessKey, b.SecretKey, session),
		Region: b.Region, BucketLookup: minio.BucketLookupPath, Transport: transport, MaxRetries: 1,
	})
	return client, transport.CloseIdleConnections, err
}

func (w *s3storeWay) Close() { w.close() }

func (w *s3storeWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	return &s3storeTenure{store: w.store, token: token, key: r.Key}, w.store.Claim(ctx, token)
}

// s3storeTenure writes what it has read, by its ETag.
type s3storeTenure struct {
	store *s3store.Store
	token guard.Token
	key   string
	etag  string
}

func (t *s3storeTenure) Leave() {}

func (t *s3storeTenure) Read(ctx context.Context) (history.State, error) {
	t.etag = ""
	e, etag, err := ReadObject(ctx, t.store, t.token, t.key)
	t.etag = etag
	return e.State, err
}

// ReadObject reads what an object holds, and its ETag; the zero Entry if there is
// none.
func ReadObject(ctx context.Context, store *s3store.Store, token guard.Token, key string) (e history.Entry, etag string, err error) {
	object, err := store.Get(ctx, token, key, s3store.GetOptions{})
	if errors.Is(err, s3store.ErrNotFound) {
		return e, "", nil
	}
	if err != nil {
		return e, "", err
	}
	defer object.Close()
	body, err := io.ReadAll(object)
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	return e, object.Info.ETag, err
}

func (t *s3storeTenure) Write(ctx context.Context, e history.Entry, pause func()) (history.State, error) {
	o := s3store.PutOptions{IfMatch: t.etag}
	if t.etag == "" {
		o.IfNoneMatch = "*"
	}
	t.etag = ""
	body, err := json.Marshal(e)
	if err != nil {
		return history.State{}, err
	}
	pause()
	info, err := t.store.Put(ctx, t.token, t.key, bytes.NewReader(body), int64(len(body)), o)
	if err != nil {
		return history.State{}, fmt.Errorf("put: %w", err)
	}
	t.etag = info.ETag
	return e.State, nil
}
