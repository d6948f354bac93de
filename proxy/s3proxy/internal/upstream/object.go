package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/lane"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
)

// Reads and writes of objects are what a proxy does all day. minio-go would be half
// of what they cost, so they are built, signed and sent here; everything else is
// its business.

// GetObject reads an object, as minio.Core does. Of the options those count that are
// headers, and PartNumber.
func (u *Upstream) GetObject(ctx context.Context, bucket, key string, o minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error) {
	r := u.request(ctx, http.MethodGet, bucket, key, o.Header())
	if o.PartNumber > 0 {
		r.URL.RawQuery = "partNumber=" + strconv.Itoa(o.PartNumber)
	}
	u.signer.Sign(r, sigv4.EmptyHash, time.Now())
	res, err := u.observed(r, func() (*http.Response, error) { return u.lanes.Do(r, nil) })
	if err != nil {
		return nil, minio.ObjectInfo{}, nil, fmt.Errorf("get: %w", err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusPartialContent {
		defer res.Body.Close()
		return nil, minio.ObjectInfo{}, nil, failure(res, bucket, key)
	}
	info, err := infoOf(key, res.Header)
	if err != nil {
		res.Body.Close()
		return nil, info, nil, err
	}
	return res.Body, info, res.Header, nil
}

// PutObject writes an object of size bytes, as minio.Core does.
func (u *Upstream) PutObject(ctx context.Context, bucket, key string, body io.Reader, size int64, md5Base64, sha256Hex string, o minio.PutObjectOptions) (minio.UploadInfo, error) {
	r := u.request(ctx, http.MethodPut, bucket, key, o.Header())
	if md5Base64 != "" {
		r.Header["Content-Md5"] = []string{md5Base64}
	}
	res, err := u.put(r, body, size, sha256Hex)
	if err != nil {
		return minio.UploadInfo{}, fmt.Errorf("put: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return minio.UploadInfo{}, failure(res, bucket, key)
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxFailure) // so that the connection is used again
	h := res.Header
	return minio.UploadInfo{
		Bucket: bucket, Key: key, ETag: strings.Trim(h.Get("ETag"), `"`), Size: size, VersionID: h.Get("X-Amz-Version-Id"),
	}, nil
}

// PutObjectPart uploads a part of size bytes, as minio.Core does. Of the options those
// count that are headers.
func (u *Upstream) PutObjectPart(ctx context.Context, bucket, key, uploadID string, number int, body io.Reader, size int64, o minio.PutObjectPartOptions) (minio.ObjectPart, error) {
	h := o.CustomHeader.Clone()
	if h == nil {
		h = http.Header{}
	}
	r := u.request(ctx, http.MethodPut, bucket, key, h)
	r.URL.RawQuery = s3utils.QueryEncode(url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {uploadID}})
	res, err := u.put(r, body, size, "")
	if err != nil {
		return minio.ObjectPart{}, fmt.Errorf("put part: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return minio.ObjectPart{}, failure(res, bucket, key)
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxFailure) // so that the connection is used again
	return minio.ObjectPart{PartNumber: number, ETag: strings.Trim(res.Header.Get("ETag"), `"`), Size: size}, nil
}

// payloadKey is under what a context has the payload that is written.
type payloadKey struct{}

// Sending says that the write made under the context it returns ends in a payload: what
// was hashed of that to be verified is not hashed again to be signed.
func Sending(ctx context.Context, p *sigv4.Payload) context.Context {
	return context.WithValue(ctx, payloadKey{}, p) //nolint:forbidigo // no token: package s3store, which is in between, hands on a reader
}

var bodies = sync.Pool{New: func() any { b := make([]byte, lane.MaxBody); return &b }} //nolint:gochecknoglobals // of short objects

// put sends a short body in one piece, so that its hash can be signed, and others in
// signed chunks, over TLS too: there are stores (versitygw) that keep what they have
// of a body that is not signed when its connection breaks, as it does on purpose
// when a client's body is wrong.
func (u *Upstream) put(r *http.Request, body io.Reader, size int64, hash string) (*http.Response, error) {
	if size > lane.MaxBody {
		r.Body = io.NopCloser(body)
		inner, _ := r.Context().Value(payloadKey{}).(*sigv4.Payload)
		u.signer.SignStream(r, size, time.Now(), inner)
		return u.observed(r, func() (*http.Response, error) { return u.lanes.Stream(r) })
	}
	buffer := bodies.Get().(*[]byte)
	defer bodies.Put(buffer)
	data := (*buffer)[:size]
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, err
	}
	if hash == "" {
		sum := sha256.Sum256(data)
		hash = hex.EncodeToString(sum[:])
	}
	u.signer.Sign(r, hash, time.Now())
	return u.observed(r, func() (*http.Response, error) { return u.lanes.Do(r, data) })
}

func (u *Upstream) request(ctx context.Context, method, bucket, key string, h http.Header) *http.Request {
	h["User-Agent"] = []string{userAgent}
	r := &http.Request{
		Method: method, Host: u.config.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: u.url("/" + bucket + "/" + key),
	}
	return r.WithContext(ctx)
}

const userAgent = "fenceproxy"

// maxFailure is how much of an error's document is read, in bytes.
const maxFailure = 64 << 10

// failure is the error that an answer tells of, as minio-go would have it.
func failure(res *http.Response, bucket, key string) error {
	e := minio.ErrorResponse{}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure))
	if err := xml.Unmarshal(text, &e); err != nil {
		e = minio.ErrorResponse{Code: res.Status, Message: string(text[:min(len(text), 1024)])}
		switch res.StatusCode {
		case http.StatusNotFound:
			e.Code, e.Message = minio.NoSuchKey, "The specified key does not exist."
		case http.StatusForbidden:
			e.Code, e.Message = minio.AccessDenied, "Access Denied."
		case http.StatusConflict:
			e.Code, e.Message = minio.Conflict, "Bucket not empty."
		case http.StatusPreconditionFailed:
			e.Code, e.Message = minio.PreconditionFailed, "At least one of the pre-conditions you specified did not hold"
		}
	}
	e.StatusCode, e.Server = res.StatusCode, res.Header.Get("Server")
	if e.BucketName == "" {
		e.BucketName = bucket
	}
	if e.Key == "" {
		e.Key = key
	}
	return e
}
