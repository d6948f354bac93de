package upstream

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // some documents must have it, if they have nothing else
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
)

// Request is one that is yet to be signed.
type Request struct {
	Method      string
	Bucket, Key string
	Query       url.Values
	Header      http.Header
	// Body has Size bytes. An object is streamed; anything else is a document, of
	// at most MaxDocument bytes, and taken into memory.
	Body   io.Reader
	Size   int64
	Object bool
}

// MaxDocument is the longest body in bytes, but for objects: S3's documents are
// shorter.
const MaxDocument = 4 << 20

// ErrTooLarge says that a document is longer than MaxDocument.
var ErrTooLarge = errors.New("document is too large")

// Sign returns a request as the store takes it. Its path has one spelling only.
func (u *Upstream) Sign(ctx context.Context, q *Request) (*http.Request, error) {
	at := u.url("/" + q.Bucket + "/" + q.Key)
	at.RawQuery = s3utils.QueryEncode(q.Query)
	req, err := http.NewRequestWithContext(ctx, q.Method, at.String(), q.Body)
	if err != nil {
		return nil, err
	}
	req.Header, req.ContentLength = q.Header, q.Size
	req.GetBody = nil // it is sent once
	if q.Object && q.Size > 0 {
		// In signed chunks, for there are stores (versitygw) that keep what they have
		// of a body that is not signed when its connection breaks.
		req.Header.Del("Content-Md5") // it was verified, and is not of the chunks
		inner, _ := q.Body.(*sigv4.Payload)
		u.signer.SignStream(req, q.Size, time.Now(), inner)
		return req, nil
	}
	hash, err := load(req)
	if err != nil {
		return nil, err
	}
	u.signer.Sign(req, hash, time.Now())
	return req, nil
}

func (u *Upstream) url(path string) *url.URL {
	return &url.URL{Scheme: u.scheme(), Host: u.config.Host, Path: path, RawPath: sigv4.EscapePath(path)}
}

// load takes a document into memory, and returns its hash.
func load(req *http.Request) (string, error) {
	if req.ContentLength > MaxDocument {
		return "", ErrTooLarge
	}
	data := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, data); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	req.Body = http.NoBody
	if len(data) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(data))
		short := md5.Sum(data) //nolint:gosec // see the import
		req.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(short[:]))
	}
	return hex.EncodeToString(sum[:]), nil
}
