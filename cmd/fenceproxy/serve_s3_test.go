package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestServeS3 runs the built program: what matters is what becomes of requests
// when signals come.
func TestServeS3(t *testing.T) {
	t.Parallel()
	program := built(t)
	for name, f := range map[string]func(*testing.T, *shop){
		"fences":            testServeS3Fences,
		"flags":             testServeS3Flags,
		"ready":             testServeS3Ready,
		"port in use":       testServeS3PortInUse,
		"drain":             testServeS3Drain,
		"drain, cut":        testServeS3DrainCut,
		"drain, overdue":    testServeS3DrainOverdue,
		"reload":            testServeS3Reload,
		"reload, mistakes":  testServeS3ReloadMistakes,
		"reload, listeners": testServeS3ReloadListeners,
		"reload, upstream":  testServeS3ReloadUpstream,
		"reload, protocol":  testServeS3ReloadProtocol,
		"reload, TLS":       testServeS3ReloadTLS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newShop(t, program))
		})
	}
}

// shop is a bucket, and a folder for configurations.
type shop struct {
	t       *testing.T
	program string
	server  *testenv.S3Server
	bucket  string
	dir     string
}

func newShop(t *testing.T, program string) *shop {
	t.Helper()
	server := testenv.S3(t)
	return &shop{t: t, program: program, server: server, bucket: server.Bucket(t), dir: t.TempDir()}
}

// oneShop is the least that a listener for S3 needs.
const oneShop = `admin: {listen: ':0'}
s3:
  - listen: 127.0.0.1:0
    upstream: {endpoint: 'http://STORE', region: REGION, access_key: ACCESS, secret_key: SECRET}
    clients: [{access_key: app, secret_key: s3cret-of-the-app, buckets: [BUCKET]}]
`

// file writes the configuration, with the store's values in their places.
func (s *shop) file(text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, "fenceproxy.yaml")
	text = strings.NewReplacer("STORE", s.server.Endpoint(), "REGION", s.server.Region, "ACCESS", s.server.AccessKey,
		"SECRET", s.server.SecretKey, "BUCKET", s.bucket, "DIR", s.dir).Replace(text)
	must(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// serve starts serve with a configuration, and waits until it listens.
func (s *shop) serve(text string) *proxy {
	s.t.Helper()
	p := startServe(s.t, s.program, nil, "--config", s.file(jsonLog+text))
	p.await(`"listening"`)
	return p
}

func (s *shop) reload(p *proxy, text string) {
	s.t.Helper()
	s.file(jsonLog + text)
	p.reload()
}

// customer is a client of the proxy, with a token of orders if number is not 0.
type customer struct {
	*minio.Core

	t      *testing.T
	bucket string
}

func (s *shop) customer(addr string, number int) *customer {
	s.t.Helper()
	return s.customerOf(addr, "app", "s3cret-of-the-app", number, nil)
}

func (s *shop) customerOf(addr, access, secret string, number int, transport *http.Transport) *customer {
	s.t.Helper()
	token := ""
	if number > 0 {
		token = fmt.Sprintf("ft1:x:%d:h%d:test:orders", number, number)
	}
	o := &minio.Options{
		Creds: credentials.NewStaticV4(access, secret, token), Region: s.server.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	if transport != nil {
		o.Secure, o.Transport = true, transport
	}
	core, err := minio.NewCore(addr, o)
	must(s.t, err)
	return &customer{core, s.t, s.bucket}
}

// put writes key, and returns the code of its refusal, "" if there is none.
func (c *customer) put(key, value string) string {
	c.t.Helper()
	_, err := c.PutObject(c.t.Context(), c.bucket, key, strings.NewReader(value), int64(len(value)), "", "", minio.PutObjectOptions{DisableContentSha256: true})
	return s3Code(err)
}

// get reads key; what it holds is "" if that is refused.
func (c *customer) get(key string) (value, code string) {
	c.t.Helper()
	body, _, _, err := c.GetObject(c.t.Context(), c.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return "", s3Code(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), s3Code(err)
}

// s3Code is the code of an error of the store, its text if it has none.
func s3Code(err error) string {
	var answer minio.ErrorResponse
	switch {
	case err == nil:
		return ""
	case errors.As(err, &answer) && answer.Code != "":
		return answer.Code
	}
	return err.Error()
}

// stores wants a request to have worked.
func (s *shop) stores(code string) {
	s.t.Helper()
	if code != "" {
		s.t.Errorf("refused: %s", code)
	}
}

// refuses wants a request to have been refused with a code.
func (s *shop) refuses(code, want string) {
	s.t.Helper()
	if code != want {
		s.t.Errorf("got %q, want %q", code, want)
	}
}

// holds wants the key k to hold something, for who reads through the proxy.
func (s *shop) holds(addr, want string) {
	s.t.Helper()
	if got, code := s.customer(addr, 0).get("k"); got != want || code != "" {
		s.t.Errorf("it holds %q, %s; want %q", got, code, want)
	}
}

// A current token writes, a stale one does not, and what happened shows in the
// log and in the metrics, but for who the holder is, and for secrets.
func testServeS3Fences(t *testing.T, s *shop) {
	p := s.serve(oneShop)
	addr := p.addr("127.0.0.1:0")
	s.stores(s.customer(addr, 33).put("k", "one"))
	s.stores(s.customer(addr, 34).put("k", "two"))
	s.refuses(s.customer(addr, 33).put("k", "three"), "FenceTokenStale")
	s.refuses(s.customer(addr, 0).put("k", "four"), "FenceTokenMissing")
	s.refuses(s.customerOf(addr, "app", "s3cret-of-another", 34, nil).put("k", "five"), "SignatureDoesNotMatch")
	s.refuses(s.customerOf(addr, "nobody", "s3cret-of-the-app", 34, nil).put("k", "six"), "InvalidAccessKeyId")
	s.holds(addr, "two")
	p.await("FenceTokenStale", `"resource":"orders"`, `"number":33`, `"mark":"generation=0 writer=34 reader=0 issuer=test"`)
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": `resource="orders"`} {
		if status, text := p.get(path); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if _, text := p.get("/metrics"); !strings.Contains(text, `fenceproxy_s3_requests_total{class="2xx",listen="127.0.0.1:0",operation="PutObject"} 2`) {
		t.Errorf("metrics: %s", text)
	}
	p.signal(syscall.SIGTERM)
	p.ends(0, "stopped")
	for _, secret := range []string{"s3cret", s.server.SecretKey, "h33", "h34", "Signature="} {
		if strings.Contains(p.log(), secret) {
			t.Errorf("the log has %q in it", secret)
		}
	}
}

// All that one listener needs comes by flags, but for its secrets.
func testServeS3Flags(_ *testing.T, s *shop) {
	env := []string{
		"AWS_ACCESS_KEY_ID=" + s.server.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.server.SecretKey, "AWS_REGION=" + s.server.Region, "AWS_SESSION_TOKEN=",
		s3ClientKeyEnv + "=app", s3ClientSecretEnv + "=s3cret-of-the-app",
	}
	p := startServe(s.t, s.program, env, "--s3-listen", "127.0.0.1:0", "--s3-upstream", "http://"+s.server.Endpoint(), "--s3-bucket", s.bucket, "--untokened=deny", "--log-format=json")
	addr := p.addr("127.0.0.1:0")
	s.stores(s.customer(addr, 34).put("k", "one"))
	_, code := s.customer(addr, 0).get("k")
	s.refuses(code, "FenceTokenMissing")
	other := s.customer(addr, 34)
	other.bucket = "another"
	_, code = other.get("k")
	s.refuses(code, "AccessDenied")
	p.signal(syscall.SIGHUP)
	p.await("reloaded")
	s.stores(s.customer(addr, 34).put("k", "two"))
	p.signal(syscall.SIGINT)
	p.ends(0, "stopped")
}

// Readiness is that of the store behind.
func testServeS3Ready(t *testing.T, s *shop) {
	link := testenv.NewLink(t, s.server.Endpoint(), testenv.LinkConfig{})
	p := s.serve(strings.Replace(oneShop, "STORE", link.Addr(), 1))
	if status, text := p.get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, text)
	}
	link.Refuse(true)
	until(t, "it is not ready", func() bool {
		status, text := p.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "127.0.0.1:0: ")
	})
	if status, _ := p.get("/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
}

func testServeS3PortInUse(t *testing.T, s *shop) {
	taken := s.server.Endpoint()
	path := s.file(strings.Replace(oneShop, "listen: 127.0.0.1:0", "listen: "+taken, 1))
	startServe(t, s.program, nil, "--config", path).ends(78, "fenceproxy: "+path+":3:13: s3[0].listen: cannot listen on "+taken+": another program listens there")
}

// address is where a listener listens now.
func (p *proxy) address(listen string) string {
	p.t.Helper()
	var line struct {
		Address string `json:"address"`
	}
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	must(p.t, json.Unmarshal([]byte(p.awaitFrom(seen, []string{`"msg":"listening"`, `"listen":"` + listen + `"`})), &line))
	return line.Address
}
