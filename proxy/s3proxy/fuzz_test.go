package s3proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// empty is a store that has nothing, and keeps what it was asked.
type empty struct {
	*httptest.Server

	mu    sync.Mutex
	asked []*http.Request
}

func newEmpty(tb testing.TB) *empty {
	tb.Helper()
	s := &empty{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, r)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
	}))
	tb.Cleanup(s.Close)
	return s
}

// taken returns what was asked since the last time.
func (s *empty) taken() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// fuzzed is a proxy for the bucket "mine", where keys below o/ belong to a
// resource.
func fuzzed(f *testing.F, untokened Policy) (*proxy, *empty) {
	f.Helper()
	store := newEmpty(f)
	return start(f, Config{
		Upstream:    Upstream{Endpoint: store.URL, AccessKey: "store", SecretKey: "store-secret-0123456"},
		Clients:     []Client{{AccessKey: appKey, SecretKey: appSecret, Buckets: []string{"mine"}}},
		Resources:   []Resource{{Prefix: "mine/o/", Resource: "orders"}},
		Untokened:   untokened,
		Domains:     []string{"s3.example"},
		MaxBodyTime: 2 * time.Second, HeaderTimeout: 2 * time.Second,
	}), store
}

// said sends bytes and no more, and returns all that is answered.
func (p *proxy) said(t *testing.T, data []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = conn.Write(data)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // as net returns it
		t.Fatalf("it hangs on %q", data)
	}
	if log := p.log.taken(); strings.Contains(log, "panic") {
		t.Fatalf("%q: %s", data, log)
	}
	return answer
}

// taken returns what was logged since the last time.
func (l *lines) taken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

var refusing = regexp.MustCompile(`^HTTP/1\.[01] [45]`)

// FuzzRaw: whatever bytes come, without a signature nothing is done, and the
// connection comes to its end.
func FuzzRaw(f *testing.F) {
	p, store := fuzzed(f, Allow)
	const auth = "Authorization: AWS4-HMAC-SHA256 Credential=app/20260101/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=00\r\nX-Amz-Date: 20260101T000000Z\r\n"
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PUT /mine/k HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na",
		"PUT /mine/k HTTP/1.1\r\nHost: x\r\n" + auth + "Content-Length: 1\r\n\r\na",
		"PUT /k HTTP/1.1\r\nHost: mine.s3.example:80\r\n" + auth + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n",
		"PUT /mine/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nDELETE /mine/k HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT /mine/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"POST /mine HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 9\r\n\r\n--b\r\n--b--",
		"PUT /mine/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=app%2F20260101%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20260101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00 HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT http://x/mine/k HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT mine:80 HTTP/1.1\r\nHost: x\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /mine/%2e%2e/%00 HTTP/1.0\r\n\r\n", "\x16\x03\x01", "GET /\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer := p.said(t, data)
		for bytes.HasPrefix(answer, []byte("HTTP/1.1 100 ")) {
			_, answer, _ = bytes.Cut(answer, []byte("\r\n\r\n"))
		}
		if len(answer) > 0 && !refusing.Match(answer) {
			t.Errorf("%q is answered %q", data, answer)
		}
		for _, r := range store.taken() {
			t.Errorf("%q: the store was asked %s %s", data, r.Method, r.RequestURI)
		}
	})
}

// signedSeeds are requests: method, target, headers and body.
func signedSeeds() [][4]string {
	return [][4]string{
		{"GET", "/mine/k?partNumber=1", "Range: bytes=0-1", ""},
		{"PUT", "/mine/o/k", "If-Match: \"x-0\"", "v"},
		{"PUT", "/mine/free", "x-amz-tagging: a=b&c=%20d", "v"},
		{"PUT", "/mine/free", "x-amz-copy-source: /mine/o%2Fk?versionId=1\nx-amz-copy-source-range: bytes=0-1\nx-amz-tagging-directive: REPLACE", ""},
		{"PUT", "/mine/o%2Fk", "x-amz-meta-a: b", "v"},
		{"PUT", "/mine/free/../o/k", "", "v"},
		{"PUT", "//mine/o/k", "", "v"},
		{"PUT", "/mine//o/k", "", "v"},
		{"PUT", "/theirs/k", "", "v"},
		{"DELETE", "/mine/.fence%2fmarks/x", "", ""},
		{"DELETE", "/o/k", "Host: mine.s3.example", ""},
		{"PUT", "/mine/free?uploadId=u&partNumber=1", "", "part"},
		{"POST", "/mine?delete", "Content-MD5: x\nx-amz-checksum-crc32: AAAAAA==", "<Delete><Object><Key>o/k</Key></Object></Delete>"},
		{"POST", "/mine/free?uploads", "x-amz-storage-class: STANDARD", ""},
		{"POST", "/mine/free?uploadId=u", "", "<CompleteMultipartUpload><Part><ETag>e</ETag><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"},
		{"GET", "/mine?list-type=2&prefix=%zz&delimiter=/&max-keys=-1&continuation-token=x&encoding-type=url&start-after=a", "", ""},
		{"GET", "/mine?uploads&key-marker=a&upload-id-marker=b&max-uploads=99999999999999999999", "", ""},
		{"PUT", "/mine/free?tagging", "", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"},
		{"PUT", "/mine/free?x-amz-acl=private&x-amz-copy-source=mine/o/k", "", ""},
		{"PUT", "/mine/free", "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\nx-amz-decoded-content-length: 1\nx-amz-trailer: x-amz-checksum-crc32", "1\r\na\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"},
		{"GET", "/?prefix=m&max-buckets=1", "Expect: 100-continue", ""},
		{"HEAD", "/mine/k", "If-None-Match: *", ""},
		{"PUT", "/mine/free?rename", "x-amz-rename-source: o/k", ""},
		{"POST", "/mine/free", "Content-Type: multipart/form-data; boundary=b", "--b\r\n--b--"},
		{"PUT", "/mine", "", "<CreateBucketConfiguration/>"},
		{"DELETE", "/mine?policy", "", ""},
	}
}

// FuzzSigned: whatever a client signs, without a token nothing that is fenced is
// written or passed on, and no bucket but its own is ever asked for.
func FuzzSigned(f *testing.F) {
	for _, seed := range signedSeeds() {
		f.Add(seed[0], seed[1], seed[2], seed[3], true)
		f.Add(seed[0], seed[1], seed[2], seed[3], false)
	}
	allow, free := fuzzed(f, Allow)
	readOnly, closed := fuzzed(f, ReadOnly)
	f.Fuzz(func(t *testing.T, method, target, headers, body string, allowed bool) {
		p, store := allow, free
		if !allowed {
			p, store = readOnly, closed
		}
		data := p.signed(method, target, headers, body)
		if data == nil || strings.Contains(target+headers, "ft1") {
			return
		}
		answer := p.said(t, data)
		if len(answer) > 0 {
			if _, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), &http.Request{Method: method}); err != nil {
				t.Errorf("%q is answered %q: %v", data, answer, err)
			}
		}
		for _, r := range store.taken() {
			if why := illegal(r, allowed); why != "" {
				t.Errorf("%q: %s: the store was asked %s %s %v", data, why, r.Method, r.RequestURI, r.Header)
			}
		}
	})
}

// signed are the bytes of a request that the app signed; nil if there is none.
func (p *proxy) signed(method, target, headers, body string) []byte {
	if !strings.HasPrefix(target, "/") || strings.ContainsFunc(target+method, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil
	}
	r, err := http.NewRequest(method, "http://"+p.addr+target, http.NoBody)
	if err != nil {
		return nil
	}
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	host := p.addr
	for line := range strings.Lines(headers) {
		name, value, ok := strings.Cut(line, ":")
		if name = http.CanonicalHeaderKey(name); !ok || name == "Content-Length" || name == "Transfer-Encoding" {
			continue
		}
		if name == "Host" {
			host = strings.TrimSpace(value)
			continue
		}
		r.Header[name] = []string{strings.TrimSpace(value)}
	}
	r.Host = host
	r = signer.SignV4(*r, appKey, appSecret, "", "us-east-1")
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", method, target, host, len(body))
	_ = r.Header.Write(&b)
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// illegal says why the store should not have been asked this for a client that
// has no token; "" if it may be.
func illegal(r *http.Request, allowed bool) string {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	source, err := url.PathUnescape(r.Header.Get("X-Amz-Copy-Source"))
	from, sourceKey, _ := strings.Cut(strings.TrimPrefix(source, "/"), "/")
	switch {
	case bucket != "mine" && (bucket != "" || !reads):
		return "another bucket"
	case layout.Reserved(key):
		return "a key of the fence"
	case !reads && !allowed:
		return "a write"
	case !reads && (key == "" || strings.HasPrefix(key, "o/")):
		return "a write of what is fenced"
	case source != "" && (err != nil || from != "mine" || layout.Reserved(sourceKey) || strings.HasPrefix(sourceKey, "o/")):
		return "a copy of what is fenced"
	}
	return ""
}
