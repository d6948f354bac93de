package gateway

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1/http1test"
)

// place is a way to a bucket: straight to the server, or through a proxy.
type place struct {
	host, bucket           string
	access, secret, region string
}

// site is a bucket of its own with proxies in front of it, and a link between
// them and the server.
type site struct {
	server *testenv.S3Server
	bucket string
	link   *testenv.S3Link
	config func(*Config)
	// patience of the proxies with clients that wait; their own if it is 0.
	patience time.Duration
	made     *Gateway // the last proxy's
}

const (
	testKey    = "client"
	testSecret = "secret-of-client"
)

// newSite returns a site. Its config, if it has one, changes that of the proxies.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{server: testenv.S3(t)}
	s.bucket, s.link = s.server.Bucket(t), s.server.Link(t)
	return s
}

// proxy starts one more proxy.
func (s *site) proxy(t *testing.T) place {
	t.Helper()
	c := Config{
		Upstream: Upstream{
			Host: s.link.Endpoint(), Region: s.server.Region, AccessKey: s.server.AccessKey, SecretKey: s.server.SecretKey,
			Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
		},
		Clients:     []Client{{AccessKey: testKey, SecretKey: testSecret, Buckets: []string{s.bucket}}},
		MaxBodyTime: 30 * time.Second, Log: discard(), Metrics: countless(),
	}
	if s.config != nil {
		s.config(&c)
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if s.patience > 0 {
		g.patience = s.patience
	}
	s.made = g
	t.Cleanup(g.Retire)
	return place{host: http1test.Start(t, g.Serve), bucket: s.bucket, access: testKey, secret: testSecret, region: s.server.Region}
}

// direct is the server itself, with a bucket that is not fenced.
func (s *site) direct(t *testing.T) place {
	t.Helper()
	return place{
		host: s.server.Endpoint(), bucket: s.server.Bucket(t), access: s.server.AccessKey, secret: s.server.SecretKey, region: s.server.Region,
	}
}

// countless are metrics that nobody reads.
func countless() *Metrics {
	const help = "for tests"
	return &Metrics{
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: help}, []string{"operation", "status"}),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "in_flight", Help: help}), Refused: func(string, string) {},
		Claims:          prometheus.NewCounterVec(prometheus.CounterOpts{Name: "claims_total", Help: help}, []string{"result"}),
		UpstreamSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "upstream_seconds", Help: help}, []string{"method"}),
		BytesUp:         prometheus.NewCounter(prometheus.CounterOpts{Name: "up_bytes_total", Help: help}),
		BytesDown:       prometheus.NewCounter(prometheus.CounterOpts{Name: "down_bytes_total", Help: help}),
	}
}

// number is a token of the resource that the tests write under.
func number(n int64) guard.Token { return tokenOf("orders", n) }

func tokenOf(resource string, n int64) guard.Token {
	return guard.Token{Resource: resource, Number: n, Mode: guard.Exclusive, Holder: "h", Issuer: "i"}
}

// client is minio-go's, which carries the tokens as its session token.
func (p place) client(t *testing.T, tokens ...guard.Token) minio.Core {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	core, err := minio.NewCore(p.host, &minio.Options{
		Creds: credentials.NewStaticV4(p.access, p.secret, listOf(t, tokens)), Region: p.region, MaxRetries: 1,
		BucketLookup: minio.BucketLookupPath, Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return *core
}

func listOf(t *testing.T, tokens []guard.Token) string {
	t.Helper()
	if len(tokens) == 0 {
		return ""
	}
	text, err := guard.FormatList(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// answered is an answer, read to its end.
type answered struct {
	status int
	header http.Header
	body   string
}

// code is the error's code; "" for none.
func (a answered) code() string {
	var e struct {
		Code string `xml:"Code"`
	}
	if !strings.Contains(a.body, "<Error>") || xml.Unmarshal([]byte(a.body), &e) != nil {
		return ""
	}
	return e.Code
}

func (a answered) expect(t *testing.T, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.code() != code {
		t.Errorf("%s: %d %s, want %d %q", what, a.status, a.body, status, code)
	}
}

// do sends a signed request. Path begins behind the bucket, and may have a query.
func (p place) do(t *testing.T, method, path, body string, header map[string]string, tokens ...guard.Token) answered {
	t.Helper()
	return p.send(t, method, path, strings.NewReader(body), int64(len(body)), hexOf(body), header, tokens...)
}

func (p place) send(t *testing.T, method, path string, body io.Reader, size int64, sum string, header map[string]string, tokens ...guard.Token) answered {
	t.Helper()
	res := p.begin(t, method, path, body, size, sum, header, tokens...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answered{res.StatusCode, res.Header, string(data)}
}

// begin is send until the answer begins.
func (p place) begin(t *testing.T, method, path string, body io.Reader, size int64, sum string, header map[string]string, tokens ...guard.Token) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.host+"/"+p.bucket+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if size == 0 {
		req.Body = http.NoBody
	}
	req.ContentLength = size
	req.Header.Set("X-Amz-Content-Sha256", sum)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	req = signer.SignV4(*req, p.access, p.secret, listOf(t, tokens), p.region)
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true, ExpectContinueTimeout: 30 * time.Second}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res
}

func hexOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func md5Of(body string) string {
	sum := md5.Sum([]byte(body))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// put writes an object, and returns its ETag.
func (p place) put(t *testing.T, key, value string, tokens ...guard.Token) string {
	t.Helper()
	info, err := p.client(t, tokens...).PutObject(t.Context(), p.bucket, key, strings.NewReader(value), int64(len(value)), "", "",
		minio.PutObjectOptions{DisableContentSha256: value == "", ContentType: "text/plain", UserMetadata: map[string]string{"color": "red"}})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return info.ETag
}

// holds expects an object, or none if want is "".
func (p place) holds(t *testing.T, key, want string, tokens ...guard.Token) {
	t.Helper()
	got, err := read(t.Context(), p.client(t, tokens...), p.bucket, key)
	switch absent := minio.ToErrorResponse(err).Code == minio.NoSuchKey; {
	case want == "" && absent:
	case err != nil || got != want:
		t.Errorf("%s holds %d bytes %.40q, %v, want %d bytes %.40q", key, len(got), got, err, len(want), want)
	}
}

func read(ctx context.Context, core minio.Core, bucket, key string) (string, error) {
	body, _, _, err := core.GetObject(ctx, bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return "", err
	}
	defer body.Close()
	var b bytes.Buffer
	_, err = io.Copy(&b, body)
	return b.String(), err
}

// refusedWith expects an error of a client's.
func refusedWith(t *testing.T, what string, err error, code string) {
	t.Helper()
	if got := minio.ToErrorResponse(err).Code; err == nil || got != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
