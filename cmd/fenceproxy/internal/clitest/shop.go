package clitest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Shop is a bucket, and a folder for configurations.
type Shop struct {
	T       *testing.T
	Program string
	Server  *testenv.S3Server
	Bucket  string
	Dir     string
}

// NewShop makes a bucket for a program from Built.
func NewShop(t *testing.T, program string) *Shop {
	t.Helper()
	server := testenv.S3(t)
	return &Shop{T: t, Program: program, Server: server, Bucket: server.Bucket(t), Dir: t.TempDir()}
}

// OneShop is the least that a listener for S3 needs.
const OneShop = `admin: {listen: ':0'}
s3:
  - listen: 127.0.0.1:0
    upstream: {endpoint: 'http://STORE', region: REGION, access_key: ACCESS, secret_key: SECRET}
    clients: [{access_key: app, secret_key: s3cret-of-the-app, buckets: [BUCKET]}]
`

// File writes the configuration, with the store's values in their places.
func (s *Shop) File(text string) string {
	s.T.Helper()
	path := filepath.Join(s.Dir, "fenceproxy.yaml")
	text = strings.NewReplacer("STORE", s.Server.Endpoint(), "REGION", s.Server.Region, "ACCESS", s.Server.AccessKey,
		"SECRET", s.Server.SecretKey, "BUCKET", s.Bucket, "DIR", s.Dir).Replace(text)
	Must(s.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Serve starts serve with a configuration, and waits until it listens.
func (s *Shop) Serve(text string) *Proxy {
	s.T.Helper()
	p := StartServe(s.T, s.Program, nil, "--config", s.File(JSONLog+text))
	p.Await(`"listening"`)
	return p
}

// Reload has a proxy read another configuration.
func (s *Shop) Reload(p *Proxy, text string) {
	s.T.Helper()
	s.File(JSONLog + text)
	p.Reload()
}

// Customer is a client of the proxy, with a token of orders if number is not 0.
type Customer struct {
	*minio.Core

	Bucket string

	t *testing.T
}

// Customer is a client with the keys of OneShop.
func (s *Shop) Customer(addr string, number int) *Customer {
	s.T.Helper()
	return s.CustomerOf(addr, "app", "s3cret-of-the-app", number, nil)
}

// CustomerOf is a client with keys of its own, over a transport, nil for plain HTTP.
func (s *Shop) CustomerOf(addr, access, secret string, number int, transport *http.Transport) *Customer {
	s.T.Helper()
	token := ""
	if number > 0 {
		token = fmt.Sprintf("ft1:x:%d:h%d:test:orders", number, number)
	}
	o := &minio.Options{
		Creds: credentials.NewStaticV4(access, secret, token), Region: s.Server.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	if transport != nil {
		o.Secure, o.Transport = true, transport
	}
	core, err := minio.NewCore(addr, o)
	Must(s.T, err)
	return &Customer{Core: core, Bucket: s.Bucket, t: s.T}
}

// Put writes key, and returns the code of its refusal, "" if there is none.
func (c *Customer) Put(key, value string) string {
	c.t.Helper()
	_, err := c.PutObject(c.t.Context(), c.Bucket, key, strings.NewReader(value), int64(len(value)), "", "", minio.PutObjectOptions{DisableContentSha256: true})
	return S3Code(err)
}

// Get reads key; what it holds is "" if that is refused.
func (c *Customer) Get(key string) (value, code string) {
	c.t.Helper()
	body, _, _, err := c.GetObject(c.t.Context(), c.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return "", S3Code(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), S3Code(err)
}

// S3Code is the code of an error of the store, its text if it has none.
func S3Code(err error) string {
	var answer minio.ErrorResponse
	switch {
	case err == nil:
		return ""
	case errors.As(err, &answer) && answer.Code != "":
		return answer.Code
	}
	return err.Error()
}

// Stores wants a request to have worked.
func (s *Shop) Stores(code string) {
	s.T.Helper()
	if code != "" {
		s.T.Errorf("refused: %s", code)
	}
}

// Refuses wants a request to have been refused with a code.
func (s *Shop) Refuses(code, want string) {
	s.T.Helper()
	if code != want {
		s.T.Errorf("got %q, want %q", code, want)
	}
}

// Holds wants the key k to hold something, for who reads through the proxy.
func (s *Shop) Holds(addr, want string) {
	s.T.Helper()
	if got, code := s.Customer(addr, 0).Get("k"); got != want || code != "" {
		s.T.Errorf("it holds %q, %s; want %q", got, code, want)
	}
}
