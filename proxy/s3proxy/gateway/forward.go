package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
)

// forward sends a request on to the store as it is, but signed by the proxy: it
// is about nothing that is fenced. The body is decoded and verified on the way.
func (x *exchange) forward() error {
	if err := x.verifySource(); err != nil {
		return err
	}
	p, err := x.payload()
	if err != nil {
		return err
	}
	req, err := x.onward(p, p.Size())
	if err != nil {
		return err
	}
	res, err := x.g.upstream().RoundTrip(req)
	if unreached := (*net.OpError)(nil); errors.As(err, &unreached) && unreached.Op == "dial" {
		err = guard.WithOutcome(err, guard.NotApplied)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	h := x.w.Header()
	for name, values := range res.Header {
		if !hopByHop(name) {
			h[name] = values
		}
	}
	x.w.WriteHeader(res.StatusCode)
	if x.w.Bare() {
		return nil
	}
	return x.pour(res.Body)
}

// verifySource refuses a copy from where the client may not read.
func (x *exchange) verifySource() error {
	_, _, err := x.source()
	return err
}

// onward is the request as the store gets it. Its path is made of the bucket and
// the key that were looked at, so that the store cannot read anything else in it.
func (x *exchange) onward(body io.Reader, size int64) (*http.Request, error) {
	t := &x.target
	at := url.URL{Scheme: "http", Host: x.g.config.Upstream.Host, Path: "/" + t.Bucket + "/" + t.Key}
	if x.g.config.Upstream.Secure {
		at.Scheme = "https"
	}
	at.RawPath = s3utils.EncodePath(at.Path)
	query := url.Values{}
	for name, values := range t.Query {
		if !strings.HasPrefix(strings.ToLower(name), "x-") { // those of the signature, and those that are headers now
			query[name] = values
		}
	}
	at.RawQuery = s3utils.QueryEncode(query)
	req, err := http.NewRequestWithContext(x.ctx(), x.r.Method, at.String(), body)
	if err != nil {
		return nil, refusal.New(refusal.InvalidURI, "Couldn't parse the specified URI.")
	}
	req.ContentLength = size
	req.GetBody = nil // it is sent once
	for name, values := range x.r.Header {
		if !hopByHop(name) && !ours(name) {
			req.Header[name] = values
		}
	}
	carrier.StripS3(req.Header, nil)
	req.Header.Del("X-Amz-Sdk-Checksum-Algorithm") // the checksum may have come behind the body
	if encoding := header.WithoutChunked(x.r.Header.Get("Content-Encoding")); encoding == "" {
		req.Header.Del("Content-Encoding")
	} else {
		req.Header.Set("Content-Encoding", encoding)
	}
	if from, copies, _ := x.source(); copies { // in one spelling only, too
		value := s3utils.EncodePath(from.Bucket + "/" + from.Key)
		if from.Version != "" {
			value += "?versionId=" + url.QueryEscape(from.Version)
		}
		req.Header.Set("X-Amz-Copy-Source", value)
	}
	u := &x.g.config.Upstream
	if size > 0 && (t.Name == operation.PutObject || t.Name == operation.UploadPart) {
		// In signed chunks, for there are stores (versitygw) that keep what they have
		// of a body that is not signed when its connection breaks.
		return signer.StreamingSignV4(req, u.AccessKey, u.SecretKey, "", u.Region, size, time.Now().UTC(), hasher{sha256.New()}), nil
	}
	if err := whole(req); err != nil {
		return nil, err
	}
	return signer.SignV4(*req, u.AccessKey, u.SecretKey, "", u.Region), nil
}

// maxDocument is the longest body in bytes, of all but objects: S3's documents
// are shorter.
const maxDocument = 4 << 20

// whole takes a body into memory, for its hash.
func whole(req *http.Request) error {
	if req.ContentLength > maxDocument {
		return refusal.New(refusal.MaxMessageLengthExceeded, "Your request was too big.")
	}
	data := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, data); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	req.Body = io.NopCloser(bytes.NewReader(data))
	if len(data) == 0 {
		req.Body = http.NoBody
	}
	return nil
}

// hasher is a hash as minio-go takes it.
type hasher struct{ hash.Hash }

// Close does nothing.
func (hasher) Close() {}

// pour streams a body of any length.
func (x *exchange) pour(body io.Reader) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	_, err := io.CopyBuffer(struct{ io.Writer }{x.w}, body, *buffer)
	return err
}

// hopByHop reports whether a header is for one connection only.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// ours reports whether a header belongs to how the client sent its request.
func ours(name string) bool {
	switch name {
	case "Authorization", "Expect", "Content-Length", "X-Amz-Date", "Date", "X-Amz-Content-Sha256", "X-Amz-Decoded-Content-Length", "X-Amz-Trailer":
		return true
	}
	return false
}
