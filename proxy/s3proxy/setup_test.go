package s3proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// Clients of the tests.
const (
	appKey, appSecret       = "app", "app-secret-0123456789"
	readerKey, readerSecret = "reader", "reader-secret-0123456"
	otherKey, otherSecret   = "other", "other-secret-01234567"
)

func token(number int64) guard.Token {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Exclusive, Holder: "h", Issuer: "i"}
}

// text is tokens as clients carry them.
func text(tb testing.TB, tokens ...guard.Token) string {
	tb.Helper()
	s, err := guard.FormatList(tokens)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// env is a bucket of a store, and proxies in front of it.
type env struct {
	store  *testenv.S3Server
	bucket string
	bare   *minio.Client // past the proxies
	core   minio.Core    // the same
}

func newEnv(tb testing.TB) *env {
	tb.Helper()
	s := testenv.S3(tb)
	e := &env{store: s, bucket: s.Bucket(tb), bare: s.Client(tb)}
	e.core = minio.Core{Client: e.bare}
	return e
}

// config is that of a proxy in front of the store.
func (e *env) config() Config {
	return Config{
		Upstream: Upstream{
			Endpoint: "http://" + e.store.Endpoint(), Region: e.store.Region, AccessKey: e.store.AccessKey, SecretKey: e.store.SecretKey,
		},
		Clients: []Client{
			{AccessKey: appKey, SecretKey: appSecret, Buckets: []string{e.bucket}},
			{AccessKey: readerKey, SecretKey: readerSecret, Buckets: []string{e.bucket}, ReadOnly: true},
			{AccessKey: otherKey, SecretKey: otherSecret, Buckets: []string{"elsewhere"}},
		},
	}
}

// proxy is a running server.
type proxy struct {
	*Server

	addr     string
	registry *prometheus.Registry
	log      *lines
}

// start serves c until the test ends.
func start(tb testing.TB, c Config) *proxy {
	tb.Helper()
	p := &proxy{registry: prometheus.NewRegistry(), log: &lines{}}
	var err error
	if c.Metrics, err = NewMetrics(p.registry); err != nil {
		tb.Fatal(err)
	}
	c.Logger = slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if p.Server, err = New(c); err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p.addr = ln.Addr().String()
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { served <- p.Serve(ctx, ln) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	return p
}

func (e *env) start(tb testing.TB) *proxy { tb.Helper(); return start(tb, e.config()) }

// lines are what was logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// client is the one of key, with tokens for its session token.
func (p *proxy) client(tb testing.TB, key, secret string, tokens ...guard.Token) minio.Core {
	tb.Helper()
	session := ""
	if len(tokens) > 0 {
		session = text(tb, tokens...)
	}
	return p.session(tb, key, secret, session)
}

func (p *proxy) session(tb testing.TB, key, secret, session string) minio.Core {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	tb.Cleanup(transport.CloseIdleConnections)
	c, err := minio.New(p.addr, &minio.Options{
		Creds: credentials.NewStaticV4(key, secret, session), Region: "us-east-1",
		BucketLookup: minio.BucketLookupPath, Transport: transport, MaxRetries: 1,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return minio.Core{Client: c}
}

// app is the client that may do everything, with tokens.
func (p *proxy) app(tb testing.TB, tokens ...guard.Token) minio.Core {
	tb.Helper()
	return p.client(tb, appKey, appSecret, tokens...)
}

// request is a request to be signed: target is what the request line gets.
type request struct {
	method, target, body string
	header               map[string]string
}

// do sends a request as it stands, signed by the app.
func (p *proxy) do(tb testing.TB, method, target, body string, header map[string]string) (*http.Response, string) {
	tb.Helper()
	return send(tb, request{method, target, body, header}.sign(tb, p.addr, appKey, appSecret))
}

// direct is do past the proxies.
func (e *env) direct(tb testing.TB, method, target, body string, header map[string]string) (*http.Response, string) {
	tb.Helper()
	return send(tb, request{method, target, body, header}.sign(tb, e.store.Endpoint(), e.store.AccessKey, e.store.SecretKey))
}

func (q request) sign(tb testing.TB, addr, key, secret string) *http.Request {
	tb.Helper()
	return q.signHash(tb, addr, key, secret, "")
}

// signHash signs a request that says this of its body.
func (q request) signHash(tb testing.TB, addr, key, secret, hash string) *http.Request {
	tb.Helper()
	if hash == "" {
		hash = "UNSIGNED-PAYLOAD"
	}
	r, err := http.NewRequestWithContext(tb.Context(), q.method, "http://"+addr+q.target, strings.NewReader(q.body))
	if err != nil {
		tb.Fatal(err)
	}
	for name, value := range q.header {
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	r.Header.Set("X-Amz-Content-Sha256", hash)
	session := r.Header.Get("X-Amz-Security-Token")
	r.Header.Del("X-Amz-Security-Token")
	return signer.SignV4(*r, key, secret, session, "us-east-1")
}

func send(tb testing.TB, r *http.Request) (*http.Response, string) {
	tb.Helper()
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	res, err := transport.RoundTrip(r)
	if err != nil {
		tb.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return res, string(data)
}

func put(tb testing.TB, c minio.Core, bucket, key, value string) minio.UploadInfo {
	tb.Helper()
	info, err := tryPut(tb, c, bucket, key, value)
	if err != nil {
		tb.Fatalf("put %q: %v", key, err)
	}
	return info
}

func tryPut(tb testing.TB, c minio.Core, bucket, key, value string) (minio.UploadInfo, error) {
	tb.Helper()
	return c.PutObject(tb.Context(), bucket, key, strings.NewReader(value), int64(len(value)), "", "", minio.PutObjectOptions{DisableContentSha256: value == ""})
}

func get(tb testing.TB, c minio.Core, bucket, key string, o minio.GetObjectOptions) (string, error) {
	tb.Helper()
	r, _, _, err := c.GetObject(tb.Context(), bucket, key, o)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func expectValue(tb testing.TB, c minio.Core, bucket, key, want string) {
	tb.Helper()
	if got, err := get(tb, c, bucket, key, minio.GetObjectOptions{}); err != nil || got != want {
		tb.Errorf("%q holds %.60q, %v, want %.60q", key, got, err, want)
	}
}

// refused checks that an error is an answer with this code and status.
func refused(tb testing.TB, what string, err error, status int, code string) {
	tb.Helper()
	var r minio.ErrorResponse
	if !errors.As(err, &r) || r.Code != code || r.StatusCode != status {
		tb.Errorf("%s: %v (%d %s), want %d %s", what, err, r.StatusCode, r.Code, status, code)
	}
}

func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if done() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within 30 s: %s", what)
		}
	}
}
