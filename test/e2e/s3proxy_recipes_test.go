package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// TestS3ProxyRecipes: what other S3 proxies and libraries for conditional writes
// got wrong, see "Known traps of S3 proxies" in docs/guarantees.md. What is not
// here other tests show.
func TestS3ProxyRecipes(t *testing.T) {
	t.Parallel()
	eachS3Site(t, map[string]func(*testing.T, *s3site){
		"conditions":         testS3Conditions,
		"create, repeated":   testS3CreateRepeated,
		"flipped bytes":      testS3Flipped,
		"keys":               testS3Keys,
		"presigned":          testS3Presigned,
		"upstream signature": testS3UpstreamSignature,
		"host":               testS3Host,
	})
}

// Every condition is heeded every time, and none holds again: no ETag comes back.
func testS3Conditions(t *testing.T, s *s3site) {
	c := s.proxy(s.server.Endpoint(), "").client(33)
	write := func(value string, condition ...[2]string) string {
		t.Helper()
		s.must("put "+value, put(t.Context(), c, s.bucket, "k", value, condition...))
		_, etag, err := get(t.Context(), c, s.bucket, "k")
		s.must("get", err)
		return etag
	}
	first := write("A", [2]string{"If-None-Match", "*"})
	s.refused("create again", put(t.Context(), c, s.bucket, "k", "B", [2]string{"If-None-Match", "*"}), minio.PreconditionFailed)
	write("B", [2]string{"If-Match", first})
	s.refused("the old ETag", put(t.Context(), c, s.bucket, "k", "C", [2]string{"If-Match", first}), minio.PreconditionFailed)
	if again := write("A"); again == first {
		t.Error("the same bytes have the same ETag")
	}
	for range 2 {
		s.refused("the old ETag of the same bytes", put(t.Context(), c, s.bucket, "k", "C", [2]string{"If-Match", first}), minio.PreconditionFailed)
		s.refused("delete by the old ETag", s.deleteIf(c, "k", first), minio.PreconditionFailed)
	}
	s.holds("k", "A")
	_, etag, err := get(t.Context(), c, s.bucket, "k")
	s.must("get", err)
	s.must("delete by the ETag", s.deleteIf(c, "k", etag))
	write("A", [2]string{"If-None-Match", "*"})
	s.refused("the ETag of before the delete", put(t.Context(), c, s.bucket, "k", "C", [2]string{"If-Match", etag}), minio.PreconditionFailed)
	s.holds("k", "A")
}

// deleteIf deletes a key that has an ETag: minio-go has no condition for that.
func (s *s3site) deleteIf(c minio.Core, key, etag string) error {
	u, err := url.Parse(c.EndpointURL().String() + "/" + s.bucket + "/" + key)
	if err != nil {
		return err
	}
	header := http.Header{"If-Match": {`"` + etag + `"`}, "X-Amz-Content-Sha256": {"UNSIGNED-PAYLOAD"}}
	req := (&http.Request{Method: http.MethodDelete, URL: u, Host: u.Host, Header: header}).WithContext(s.t.Context())
	return answerOf(signer.SignV4(*req, "app", "s3cret-of-the-app", s3number(33).String(), s.server.Region))
}

// answerOf sends a request; an answer that is none of success is an error.
func answerOf(req *http.Request) error {
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode < 300 {
		return err
	}
	_, rest, _ := strings.Cut(string(body), "<Code>")
	code, _, _ := strings.Cut(rest, "</Code>")
	return minio.ErrorResponse{StatusCode: res.StatusCode, Code: code, Message: string(body)}
}

// The answer to a create is lost. If that was on the way from the store, the proxy
// knows its own write, and the client hears of a success. If it was on the way to
// the client, its second request is another one, and is answered as at S3 itself.
func testS3CreateRepeated(t *testing.T, s *s3site) {
	p := s.proxy(s.link.Endpoint(), "")
	c := p.client(33)
	create := [2]string{"If-None-Match", "*"}
	s.must("put", put(t.Context(), c, s.bucket, "other", "v"))
	s.link.DropReply(s3link.Op(s3link.PutObject), 1)
	s.must("create", put(t.Context(), c, s.bucket, "k", "mine", create))
	s.holds("k", "mine")

	way := testenv.NewLink(t, p.addr, testenv.LinkConfig{})
	far := (&s3proxy{site: s, addr: way.Addr()}).clientOver(33, &http.Transport{DisableKeepAlives: true})
	way.DropReply(1)
	s.refused("its answer is lost", put(t.Context(), far, s.bucket, "l", "mine", create), "none")
	s.refused("create again", put(t.Context(), far, s.bucket, "l", "mine", create), minio.PreconditionFailed)
	s.holds("l", "mine")
}

// flip is a way to a proxy on which one byte of a body is not what it was, so many
// before its end; or on which the end is missing.
type flip struct {
	http.RoundTripper

	before int
	cut    bool
}

func (f *flip) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	at := len(body) - f.before
	if f.cut {
		body = append(body[:at:at], bytes.Repeat([]byte(" "), f.before)...)
	} else {
		body[at] ^= 1
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return f.RoundTripper.RoundTrip(r)
}

// A byte is changed anywhere in a stream of signed chunks, the last chunk and its
// signature above all: nothing is stored, though most was passed on before that is
// seen.
func testS3Flipped(t *testing.T, s *s3site) {
	p := s.proxy(s.server.Endpoint(), "")
	value := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	plain := p.client(33)
	s.must("put", put(t.Context(), plain, s.bucket, "there", "before"))
	s.must("put in chunks", put(t.Context(), plain, s.bucket, "whole", value))
	s.holds("whole", value)
	const last = 1 + len(";chunk-signature=") + 64 + 4 // bytes of the chunk that ends the stream
	for _, f := range []flip{
		{before: 5},
		{before: 60},
		{before: last - 1},
		{before: last},
		{before: last + 3},
		{before: last + 1000},
		{before: len(value) - 100},
		{before: last, cut: true},
		{before: last + 2, cut: true},
		{before: 1000, cut: true},
	} {
		f.RoundTripper = &http.Transport{DisableKeepAlives: true}
		c := p.clientBy(33, &f)
		for _, key := range []string{"there", "new"} {
			err := put(t.Context(), c, s.bucket, key, value)
			switch code := codeOf(err); code {
			case "SignatureDoesNotMatch", "IncompleteBody", "InvalidRequest", "InvalidChunkSizeError", "MalformedTrailerError":
			default:
				t.Errorf("%+v: %v", f, err)
			}
		}
	}
	s.holds("there", "before")
	s.holds("new", "")
}

// Keys that have to be escaped, by every way in which one is told.
func testS3Keys(t *testing.T, s *s3site) {
	c := s.proxy(s.server.Endpoint(), "").client(33)
	for _, key := range []string{"a=b", "a:b", "a%2Fb", "a b", "a+b", "\u00fc~", "a/b=c:d", "a?versionId=1", "a&b;c", "%25", "a%"} {
		s.must("put "+key, put(t.Context(), c, s.bucket, key, "of "+key))
		if value, _, err := get(t.Context(), c, s.bucket, key); err != nil || value != "of "+key {
			t.Errorf("%s: %q, %v", key, value, err)
		}
		id, part := s.upload(c, "parts/"+key, "parts of "+key)
		_, err := c.CompleteMultipartUpload(t.Context(), s.bucket, "parts/"+key, id, []minio.CompletePart{part}, minio.PutObjectOptions{})
		s.must("complete "+key, err)
		_, err = c.CopyObject(t.Context(), s.bucket, key, s.bucket, "copy/"+key, nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
		s.must("copy "+key, err)
		s.holds("copy/"+key, "of "+key)
		s.holds("parts/"+key, "parts of "+key)
	}
}

// A header that is added to a presigned URL and changes what it does is refused.
func testS3Presigned(t *testing.T, s *s3site) {
	c := s.proxy(s.server.Endpoint(), "").client(33)
	s.must("put", put(t.Context(), c, s.bucket, "k", "v"))
	s.must("put", put(t.Context(), c, s.bucket, "secret", "s"))
	at := must(c.PresignedPutObject(t.Context(), s.bucket, "k", time.Minute))(t)
	for _, h := range [][2]string{
		{"X-Amz-Copy-Source", s.bucket + "/secret"}, {"X-Amz-Meta-A", "b"}, {"X-Amz-Tagging", "a=b"}, {"X-Amz-Storage-Class", "STANDARD"}, {"X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
	} {
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPut, at.String(), strings.NewReader("w")))(t)
		req.Header.Set(h[0], h[1])
		s.refused(h[0], answerOf(req), "AccessDenied")
	}
	s.holds("k", "v")
	req := must(http.NewRequestWithContext(t.Context(), http.MethodPut, at.String(), strings.NewReader("w")))(t)
	s.must("without any", answerOf(req))
	s.holds("k", "w")
}

// What somebody between the proxy and the store may change is not signed there.
func testS3UpstreamSignature(t *testing.T, s *s3site) {
	c := s.proxy(s.link.Endpoint(), "").client(33)
	s.must("put", put(t.Context(), c, s.bucket, "k", "v"))
	_, _, err := get(t.Context(), c, s.bucket, "k")
	s.must("get", err)
	id, part := s.upload(c, "k", "w")
	_, err = c.CompleteMultipartUpload(t.Context(), s.bucket, "k", id, []minio.CompletePart{part}, minio.PutObjectOptions{})
	s.must("complete", err)
	requests := s.link.Requests()
	if len(requests) < 5 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, r := range requests {
		if r.Bucket == "" {
			continue // that is whether it is ready
		}
		_, signed, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
		signed, _, _ = strings.Cut(signed, ",")
		for _, name := range []string{"accept-encoding", "user-agent", "connection", "expect", "via"} {
			if strings.Contains(";"+signed+";", ";"+name+";") {
				t.Errorf("%s signs %s", r.Op, signed)
			}
		}
		if r.Header.Get("Accept-Encoding") == "gzip" || !strings.Contains(signed, "host") {
			t.Errorf("%s: %v", r.Op, r.Header)
		}
		for _, name := range []string{"X-Amz-Security-Token", "Fence-Token", "X-Amz-Meta-Fence-Token"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s carries %s", r.Op, name)
			}
		}
	}
}

// The host counts as it was sent, with its port, whatever others say that it was.
func testS3Host(t *testing.T, s *s3site) {
	p := s.proxy(s.server.Endpoint(), "")
	for _, host := range []string{p.addr, "s3.example", "s3.example:443", "s3.example:80", "S3.Example:9000", "[::1]:443"} {
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/"+s.bucket+"/k", strings.NewReader(host)))(t)
		req.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		req.Host = host
		req = signer.SignV4(*req, "app", "s3cret-of-the-app", s3number(33).String(), s.server.Region)
		req.URL.Host = p.addr
		for name, value := range map[string]string{"X-Forwarded-Host": "other.example", "X-Forwarded-Port": "8443", "X-Forwarded-Proto": "https", "Forwarded": "host=other.example"} {
			req.Header.Set(name, value)
		}
		s.must(host, answerOf(req))
		s.holds("k", host)
	}
}
