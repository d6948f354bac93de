package s3proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/guard"
)

// raw is a client's connection, on which it says what it likes.
type raw struct {
	net.Conn

	tb testing.TB
	in *bufio.Reader
}

func (p *proxy) dial(tb testing.TB) *raw {
	tb.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	return &raw{conn, tb, bufio.NewReader(conn)}
}

// head sends the head of a request, signed by the app, for a body of so many
// bytes; -1 for one in chunks.
func (c *raw) head(p *proxy, method, target string, size int, header map[string]string) {
	c.tb.Helper()
	r := request{method, target, "", header}.sign(c.tb, p.addr, appKey, appSecret)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, p.addr)
	if size >= 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", size)
	} else {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	_ = r.Header.Write(&b)
	b.WriteString("\r\n")
	if _, err := c.Write(b.Bytes()); err != nil {
		c.tb.Fatal(err)
	}
}

// answer reads an answer: its status, and S3's code.
func (c *raw) answer() (int, string) {
	c.tb.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer res.Body.Close()
	if res.ContentLength < 0 { // what does not take long is told with its length
		c.tb.Errorf("%d has no length", res.StatusCode)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.tb.Fatal(err)
	}
	return res.StatusCode, code(string(body))
}

// ended reads until the other end closes, or has reset, the connection.
func (c *raw) ended() {
	c.tb.Helper()
	_, err := io.Copy(io.Discard, c.in)
	if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // as net returns it
		c.tb.Error("the connection is still there")
	}
}

func carrying(tb testing.TB, t guard.Token, more ...map[string]string) map[string]string {
	tb.Helper()
	return with(append(more, map[string]string{"X-Amz-Security-Token": text(tb, t)})...)
}

// overtaken is a proxy that takes token 33 for current: the newer one has come
// through another proxy.
func (e *env) overtaken(tb testing.TB) *proxy {
	tb.Helper()
	p := e.start(tb)
	put(tb, p.app(tb, token(33)), e.bucket, "k", "by 33")
	put(tb, e.start(tb).app(tb, token(34)), e.bucket, "k", "v")
	return p
}

// A stale holder that waits for leave to send its body gets its answer instead.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.overtaken(t)
	target := "/" + e.bucket + "/k"
	expect := map[string]string{"Expect": "100-continue"}
	before := counted(t, p.metrics.gateway.BytesUp)
	const most = 5<<30 - 64 // what S3 takes in one PUT, less the header
	for _, size := range []int{1, 100, 1 << 30, most} {
		c := p.dial(t)
		c.head(p, http.MethodPut, target, size, carrying(t, token(33), expect))
		if status, code := c.answer(); status != 412 || code != "FenceTokenStale" {
			t.Errorf("%d bytes: %d %s", size, status, code)
		}
		c.ended()
	}
	c := p.dial(t) // nor does anybody send what the store would not take
	c.head(p, http.MethodPut, target, most+1, carrying(t, token(34), expect))
	if status, code := c.answer(); status != 400 || code != "EntityTooLarge" {
		t.Errorf("%d bytes: %d %s", most+1, status, code)
	}
	c.ended()
	if n := counted(t, p.metrics.gateway.BytesUp); n != before {
		t.Errorf("%v bytes were read", n-before)
	}
	c = p.dial(t)
	c.head(p, http.MethodPut, target, 3, carrying(t, token(34), expect))
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("current: %q, %v", line, err)
	}
	_, _ = c.in.ReadString('\n')
	_, _ = io.WriteString(c, "new")
	if status, code := c.answer(); status != 200 {
		t.Errorf("current: %d %s", status, code)
	}
	expectValue(t, p.app(t, token(34)), e.bucket, "k", "new")
}

// A stale holder that does not wait reads its answer too, though it is still
// sending.
func TestStaleHolderSendsOn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.overtaken(t)
	stale := p.app(t, token(33))
	body := make([]byte, 48<<20)
	before := counted(t, p.metrics.gateway.BytesUp)
	for range 20 {
		_, err := stale.PutObject(t.Context(), e.bucket, "k", struct{ io.Reader }{bytes.NewReader(body)}, int64(len(body)), "", "", minio.PutObjectOptions{})
		refused(t, "put of 48 MiB", err, 412, "FenceTokenStale")
	}
	if n := counted(t, p.metrics.gateway.BytesUp); n != before {
		t.Errorf("%v bytes were looked at", n-before)
	}
	// Not every client looks for an answer before it has sent all.
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", len(body), carrying(t, token(33)))
	if _, err := conn.Write(body); err != nil {
		t.Error(err)
	}
	if status, code := conn.answer(); status != 412 || code != "FenceTokenStale" {
		t.Errorf("%d %s", status, code)
	}
	expectValue(t, p.app(t, token(34)), e.bucket, "k", "v")
}

// A body that stops coming ends its request, and nothing is stored.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	c.MaxBodyTime = 2 * time.Second
	p := start(t, c)
	put(t, p.app(t, token(33)), e.bucket, "k", "v")
	for _, size := range []int{100, 4 << 20} {
		conn := p.dial(t)
		conn.head(p, http.MethodPut, "/"+e.bucket+"/k", size, carrying(t, token(33)))
		if _, err := conn.Write(make([]byte, size/2)); err != nil {
			t.Fatal(err)
		}
		if status, code := conn.answer(); status != 400 || code != "RequestTimeout" {
			t.Errorf("%d bytes: %d %s", size, status, code)
		}
		conn.ended()
	}
	expectValue(t, p.app(t, token(33)), e.bucket, "k", "v")
	eventually(t, "no request is under way", func() bool { return gauge(t, p.metrics.inFlight) == 0 })

	// One that comes slowly is waited for, within bounds: see TestIntakeTrickles.
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", 10, carrying(t, token(33)))
	tick := time.NewTicker(c.MaxBodyTime / 8) // ten of them take longer than it
	defer tick.Stop()
	for i := range 10 {
		<-tick.C
		if _, err := fmt.Fprint(conn, i); err != nil {
			t.Fatal(err)
		}
	}
	if status, code := conn.answer(); status != 200 {
		t.Errorf("ten bytes, one by one: %d %s", status, code)
	}
	expectValue(t, p.app(t, token(33)), e.bucket, "k", "0123456789")
}

// A client that does not read its answer is cut off.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	body := make([]byte, 64<<20)
	app := e.start(t).app(t, token(33)) // whose bodies have their time
	if _, err := app.PutObject(t.Context(), e.bucket, "k", bytes.NewReader(body), int64(len(body)), "", "", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	c := e.config()
	c.MaxBodyTime = 300 * time.Millisecond
	p := start(t, c)
	conn := p.dial(t)
	conn.head(p, http.MethodGet, "/"+e.bucket+"/k", 0, carrying(t, token(33)))
	if _, err := conn.in.Peek(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request has ended", func() bool { return gauge(t, p.metrics.inFlight) == 0 })
	if n, _ := io.Copy(io.Discard, conn.in); n >= int64(len(body)) {
		t.Error("it got everything")
	}
}

// A client that breaks off in the middle of its body has stored nothing.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(33)), e.bucket, "k", "v")
	for _, size := range []int{100, 4 << 20} {
		conn := p.dial(t)
		conn.head(p, http.MethodPut, "/"+e.bucket+"/k", size, carrying(t, token(33)))
		if _, err := conn.Write(make([]byte, size-1)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		eventually(t, "the request has ended", func() bool { return gauge(t, p.metrics.inFlight) == 0 })
		expectValue(t, p.app(t, token(33)), e.bucket, "k", "v")
	}
}

// What is not what the client signed is not stored, though most of it has been
// sent on when that is seen.
func TestTamperedBody(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(33)), e.bucket, "k", "v")
	for _, size := range []int{100, 4 << 20} {
		body := strings.Repeat("x", size)
		for name, header := range map[string]map[string]string{
			"XAmzContentSHA256Mismatch": {"X-Amz-Content-Sha256": strings.Repeat("0", 64)},
			"BadDigest":                 {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="},
		} {
			r := request{http.MethodPut, "/" + e.bucket + "/k", body, carrying(t, token(33), header)}.signHash(t, p.addr, appKey, appSecret, header["X-Amz-Content-Sha256"])
			if res, answer := send(t, r); res.StatusCode != http.StatusBadRequest || code(answer) != name {
				t.Errorf("%d bytes, %s: %d %s", size, name, res.StatusCode, answer)
			}
		}
	}
	expectValue(t, p.app(t, token(33)), e.bucket, "k", "v")
}

func TestBodyOfNoLength(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	conn := p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", -1, carrying(t, token(33)))
	if status, code := conn.answer(); status != 411 || code != "MissingContentLength" {
		t.Errorf("%d %s", status, code)
	}
	conn = p.dial(t)
	conn.head(p, http.MethodPut, "/"+e.bucket+"/k", 6<<30, carrying(t, token(33)))
	if status, code := conn.answer(); status != 400 || code != "EntityTooLarge" {
		t.Errorf("%d %s", status, code)
	}
}

func gauge(tb testing.TB, g prometheus.Gauge) float64 {
	tb.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(g)
	families, err := r.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}
