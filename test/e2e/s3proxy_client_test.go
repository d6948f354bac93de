package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
)

// s3number is a token of the resource.
func s3number(n int64) guard.Token {
	return guard.Token{Resource: "orders", Number: n, Mode: guard.Exclusive, Holder: fmt.Sprint("h", n), Issuer: "e2e"}
}

// client is one under the token of a number, or without any for 0, which sends
// nothing twice.
func (p *s3proxy) client(n int64) minio.Core {
	p.site.t.Helper()
	return p.clientOver(n, &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true})
}

func (p *s3proxy) clientOver(n int64, transport *http.Transport) minio.Core {
	p.site.t.Helper()
	p.site.t.Cleanup(transport.CloseIdleConnections)
	return p.clientBy(n, transport)
}

func (p *s3proxy) clientBy(n int64, transport http.RoundTripper) minio.Core {
	p.site.t.Helper()
	token := ""
	if n > 0 {
		token = s3number(n).String()
	}
	core, err := minio.NewCore(p.addr, &minio.Options{
		Creds: credentials.NewStaticV4("app", "s3cret-of-the-app", token), Region: p.site.server.Region,
		BucketLookup: minio.BucketLookupPath, Transport: transport, MaxRetries: 1,
	})
	if err != nil {
		p.site.t.Fatal(err)
	}
	return *core
}

// put writes an object in one request.
func put(ctx context.Context, c minio.Core, bucket, key, value string, headers ...[2]string) error {
	var o minio.PutObjectOptions
	for _, h := range headers {
		switch h[0] {
		case "If-Match":
			o.SetMatchETag(h[1])
		case "If-None-Match":
			o.SetMatchETagExcept(h[1])
		}
	}
	_, err := c.PutObject(ctx, bucket, key, strings.NewReader(value), int64(len(value)), "", "", o)
	return err
}

// get reads an object; what it is is "" if there is none.
func get(ctx context.Context, c minio.Core, bucket, key string) (value, etag string, err error) {
	body, info, _, err := c.GetObject(ctx, bucket, key, minio.GetObjectOptions{})
	if codeOf(err) == minio.NoSuchKey {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), info.ETag, err
}

// codeOf is S3's code of an error: "" of none, "none" where there was no answer.
func codeOf(err error) string {
	var answer minio.ErrorResponse
	switch {
	case err == nil:
		return ""
	case errors.As(err, &answer) && answer.Code != "":
		return answer.Code
	}
	return "none"
}

func (s *s3site) refused(what string, err error, code string) {
	s.t.Helper()
	if codeOf(err) != code {
		s.t.Errorf("%s: %v, want %s", what, err, code)
	}
}
