package gateway

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
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
	if size == 0 {
		body = http.NoBody
	}
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
	req.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	u := &x.g.config.Upstream
	return signer.SignV4(*req, u.AccessKey, u.SecretKey, "", u.Region), nil
}

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
