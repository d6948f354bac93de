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

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// client is a client of S3 that carries a token, and knows nothing of it.
type client interface {
	// get reads an object and its ETag; errAbsent if there is none.
	get(ctx context.Context, key string) (body []byte, etag string, err error)
	// put writes an object if it has the ETag, or, if that is "", if there is none.
	put(ctx context.Context, key string, body []byte, etag string) (newETag string, err error)
	close()
}

var errAbsent = errors.New("no such object")

// s3proxyWay goes in by a client through a proxy, a new client for each holder.
type s3proxyWay struct {
	proxies []Bucket
	dice    *rand.Rand
	dial    func(Bucket, guard.Token) (client, error)
}

func openS3Proxy(dial func(a Access) func(Bucket, guard.Token) (client, error)) func(Access, *rand.Rand) Way {
	return func(a Access, dice *rand.Rand) Way { return &s3proxyWay{a.S3Proxies, dice, dial(a)} }
}

func (w *s3proxyWay) Close() {}

// Enter reads the object: the proxy claims a token when it sees it first.
func (w *s3proxyWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	c, err := w.dial(w.proxies[w.dice.IntN(len(w.proxies))], token)
	if err != nil {
		return nil, err
	}
	t := &s3proxyTenure{client: c, key: r.Key}
	if _, err := t.Read(ctx); err != nil {
		t.Leave()
		return nil, err
	}
	return t, nil
}

type s3proxyTenure struct {
	client client
	key    string
	etag   string
}

func (t *s3proxyTenure) Leave() { t.client.close() }

func (t *s3proxyTenure) Read(ctx context.Context) (history.State, error) {
	t.etag = ""
	body, etag, err := t.client.get(ctx, t.key)
	if errors.Is(err, errAbsent) {
		return history.State{}, nil
	}
	if err != nil {
		return history.State{}, err
	}
	var e history.Entry
	if err := json.Unmarshal(body, &e); err != nil {
		return history.State{}, fmt.Errorf("read %q: %w", body, err)
	}
	t.etag = etag
	return e.State, nil
}

func (t *s3proxyTenure) Write(ctx context.Context, e history.Entry, pause func()) (history.State, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return history.State{}, err
	}
	named := t.etag
	t.etag = ""
	pause()
	t.etag, err = t.client.put(ctx, t.key, body, named)
	if err != nil {
		return history.State{}, err
	}
	return e.State, nil
}

// answeredS3 is what an answer of an S3 server, of a status and a code, tells of a
// write. What is answered below 500 was not carried out.
func answeredS3(status int, code string, err error) error {
	r, ours := carrier.RefusalByCode(code)
	switch {
	case ours:
		return errors.Join(&guard.RefusedError{Reason: r.Reason}, guard.WithOutcome(err, guard.Refused))
	case status >= 400 && status < 500, code == carrier.CodeUnavailable:
		return guard.WithOutcome(err, guard.NotApplied)
	}
	return guard.WithOutcome(err, guard.Unknown)
}

// minioClient is minio-go, which repeats nothing.
type minioClient struct {
	*minio.Client
	bucket string
	end    func()
}

func dialMinio(Access) func(Bucket, guard.Token) (client, error) {
	return func(b Bucket, token guard.Token) (client, error) {
		c, end, err := b.clientWith(token.String())
		return &minioClient{c, b.Bucket, end}, err
	}
}

func (c *minioClient) close() { c.end() }

func (c *minioClient) get(ctx context.Context, key string) ([]byte, string, error) {
	core := minio.Core{Client: c.Client}
	object, info, _, err := core.GetObject(ctx, c.bucket, key, minio.GetObjectOptions{})
	if err == nil {
		defer object.Close()
		body, err := io.ReadAll(object)
		return body, info.ETag, err
	}
	r := minio.ToErrorResponse(err)
	if r.StatusCode == http.StatusNotFound && r.Code == minio.NoSuchKey {
		return nil, "", errAbsent
	}
	return nil, "", answeredS3(r.StatusCode, r.Code, fmt.Errorf("get: %w", err))
}

func (c *minioClient) put(ctx context.Context, key string, body []byte, etag string) (string, error) {
	var o minio.PutObjectOptions
	if etag == "" {
		o.SetMatchETagExcept("*") // If-None-Match: *
	} else {
		o.SetMatchETag(etag)
	}
	info, err := c.PutObject(ctx, c.bucket, key, bytes.NewReader(body), int64(len(body)), o)
	if err != nil {
		r := minio.ToErrorResponse(err)
		return "", answeredS3(r.StatusCode, r.Code, fmt.Errorf("put: %w", err))
	}
	return info.ETag, nil
}
