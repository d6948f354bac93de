package ways

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
)

// minioClient is minio-go, which repeats nothing.
type minioClient struct {
	*minio.Client
	http   *http.Client
	bucket string
}

var _ fullClient = (*minioClient)(nil)

func dialMinio(Access) func(Bucket, guard.Token) (client, error) {
	return func(b Bucket, token guard.Token) (client, error) {
		c, transport, err := b.clientWith(token.String())
		return &minioClient{c, &http.Client{Transport: transport}, b.Bucket}, err
	}
}

func (c *minioClient) close() { c.http.CloseIdleConnections() }

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
		return nil, "", errors.Join(errAbsent, guard.WithOutcome(err, guard.NotApplied))
	}
	return nil, "", answeredS3(r.StatusCode, r.Code, fmt.Errorf("get: %w", err))
}

func (c *minioClient) put(ctx context.Context, key string, body []byte, etag string) (string, error) {
	info, err := c.PutObject(ctx, c.bucket, key, bytes.NewReader(body), int64(len(body)), named(etag))
	return info.ETag, answeredMinio("put", err)
}

// named are options that name the state that is meant.
func named(etag string) (o minio.PutObjectOptions) {
	if etag == "" {
		o.SetMatchETagExcept("*") // If-None-Match: *
	} else {
		o.SetMatchETag(etag)
	}
	return o
}

// answeredMinio is answeredS3 of an error of minio-go, which may be nil.
func answeredMinio(what string, err error) error {
	if err == nil {
		return nil
	}
	r := minio.ToErrorResponse(err)
	return answeredS3(r.StatusCode, r.Code, fmt.Errorf("%s: %w", what, err))
}

func (c *minioClient) parts(ctx context.Context, key string, body []byte, etag string, again func() bool) (string, error) {
	core := minio.Core{Client: c.Client}
	id, err := core.NewMultipartUpload(ctx, c.bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return "", before(answeredMinio("create upload", err))
	}
	part, err := core.PutObjectPart(ctx, c.bucket, key, id, 1, bytes.NewReader(body), int64(len(body)), minio.PutObjectPartOptions{})
	if err != nil {
		return "", before(answeredMinio("put part", err))
	}
	return completed(again, func() (string, error) {
		info, err := core.CompleteMultipartUpload(ctx, c.bucket, key, id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, named(etag))
		if minio.ToErrorResponse(err).Code == minio.NoSuchUpload { // it was completed, or never will be
			return "", guard.WithOutcome(err, guard.Unknown)
		}
		return info.ETag, answeredMinio("complete upload", err)
	})
}

func (c *minioClient) copy(ctx context.Context, key, etag, from, source string) (string, error) {
	core := minio.Core{Client: c.Client}
	header := map[string]string{"x-amz-copy-source-if-match": source}
	if etag == "" {
		header["If-None-Match"] = "*"
	} else {
		header["If-Match"] = etag
	}
	info, err := core.CopyObject(ctx, c.bucket, from, c.bucket, key, header, minio.CopySrcOptions{}, minio.PutObjectOptions{})
	return info.ETag, answeredMinio("copy", err)
}

// remove is by a presigned URL: minio-go's own RemoveObject knows no condition.
func (c *minioClient) remove(ctx context.Context, key, etag string) error {
	header := http.Header{"If-Match": {`"` + etag + `"`}}
	url, err := c.PresignHeader(ctx, http.MethodDelete, c.bucket, key, time.Minute, nil, header)
	if err != nil {
		return before(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, url.String(), nil)
	if err != nil {
		return before(err)
	}
	request.Header = header
	answer, err := c.http.Do(request)
	if err != nil {
		return guard.WithOutcome(err, guard.Unknown)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 300 {
		return nil
	}
	var said struct {
		Code string `xml:"Code"`
	}
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = xml.Unmarshal(text, &said)
	}
	return answeredS3(answer.StatusCode, said.Code, errors.Join(fmt.Errorf("delete: %d %s", answer.StatusCode, text), err))
}
