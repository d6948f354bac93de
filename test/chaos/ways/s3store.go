package ways

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// s3storeWay goes in by package s3store.
type s3storeWay struct {
	store   *s3store.Store
	dice    *rand.Rand
	inParts bool
	close   func()
}

// uploadKey is what all stores of this bucket have.
var uploadKey = []byte("the upload key of test/chaos, 32.")

func openS3Store(inParts bool) func(Access, *rand.Rand) (Way, error) {
	return func(a Access, dice *rand.Rand) (Way, error) {
		client, end, err := a.S3.Client()
		if err != nil {
			return nil, err
		}
		store, err := s3store.New(client, s3store.Config{Bucket: a.S3.Bucket, UploadKey: uploadKey})
		if err != nil {
			return nil, err
		}
		return &s3storeWay{store, dice, inParts, end}, nil
	}
}

// Client is a client of the bucket that repeats nothing, and what ends it.
func (b Bucket) Client() (*minio.Client, func(), error) {
	c, transport, err := b.clientWith("")
	return c, transport.CloseIdleConnections, err
}

// clientWith is Client with a session token.
func (b Bucket) clientWith(session string) (*minio.Client, *http.Transport, error) {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, ResponseHeaderTimeout: 30 * time.Second}
	if b.CA != "" {
		certificate, err := os.ReadFile(b.CA)
		if err != nil {
			return nil, transport, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(certificate)
	}
	client, err := minio.New(b.Endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(b.AccessKey, b.SecretKey, session),
		Region: b.Region, BucketLookup: minio.BucketLookupPath, Transport: transport, MaxRetries: 1, Secure: b.CA != "",
	})
	return client, transport, err
}

func (w *s3storeWay) Close() { w.close() }

func (w *s3storeWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	return &objectTenure{client: &storeClient{w.store, token}, key: r.Key, dice: w.dice, inParts: w.inParts}, w.store.Claim(ctx, token)
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

// storeClient is a store with a token.
type storeClient struct {
	store *s3store.Store
	token guard.Token
}

var _ fullClient = (*storeClient)(nil)

func (c *storeClient) close() {}

func (c *storeClient) get(ctx context.Context, key string) ([]byte, string, error) {
	object, err := c.store.Get(ctx, c.token, key, s3store.GetOptions{})
	if errors.Is(err, s3store.ErrNotFound) {
		return nil, "", errors.Join(errAbsent, err)
	}
	if err != nil {
		return nil, "", err
	}
	defer object.Close()
	body, err := io.ReadAll(object)
	return body, object.Info.ETag, err
}

// condition is If-Match, or If-None-Match: *.
func condition(etag string) (match, none string) {
	if etag == "" {
		return "", "*"
	}
	return etag, ""
}

func (c *storeClient) put(ctx context.Context, key string, body []byte, etag string) (string, error) {
	var o s3store.PutOptions
	o.IfMatch, o.IfNoneMatch = condition(etag)
	info, err := c.store.Put(ctx, c.token, key, bytes.NewReader(body), int64(len(body)), o)
	return info.ETag, err
}

func (c *storeClient) parts(ctx context.Context, key string, body []byte, etag string, again func() bool) (string, error) {
	id, err := c.store.CreateUpload(ctx, c.token, key, s3store.PutOptions{})
	if err != nil {
		return "", before(err)
	}
	part, err := c.store.UploadPart(ctx, c.token, key, id, 1, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return "", before(err)
	}
	var o s3store.CompleteOptions
	o.IfMatch, o.IfNoneMatch = condition(etag)
	return completed(again, func() (string, error) {
		info, err := c.store.CompleteUpload(ctx, c.token, key, id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, o)
		return info.ETag, err
	})
}

// completed completes an upload as often as again says. One that was completed
// stays so, whatever is said of it later; one of which that is not known may be by a
// later try.
func completed(again func() bool, complete func() (etag string, err error)) (string, error) {
	etag, err := complete()
	for again() {
		switch next, nextErr := complete(); {
		case nextErr == nil:
			etag, err = next, nil
		case err != nil && guard.OutcomeOf(err) != guard.Unknown:
			err = nextErr // by the first nothing was done
		}
	}
	return etag, err
}

func (c *storeClient) copy(ctx context.Context, key, etag, from, source string) (string, error) {
	var o s3store.PutOptions
	o.IfMatch, o.IfNoneMatch = condition(etag)
	info, err := c.store.Copy(ctx, c.token, s3store.CopyDest{Key: key, PutOptions: o}, s3store.CopySource{Key: from, IfMatch: source})
	return info.ETag, err
}

func (c *storeClient) remove(ctx context.Context, key, etag string) error {
	return c.store.Delete(ctx, c.token, key, s3store.DeleteOptions{IfMatch: etag})
}
