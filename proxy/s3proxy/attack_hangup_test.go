package s3proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
)

// leavings are how a client ends its connection.
func leavings() map[string]func(net.Conn) {
	return map[string]func(net.Conn){
		"close": func(c net.Conn) { c.Close() },
		"reset": func(c net.Conn) {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		},
		"half": func(c net.Conn) { _ = c.(interface{ CloseWrite() error }).CloseWrite() },
	}
}

// Wherever in a write its client hangs up, and however, the key has what it had or what
// was sent to its end; whoever still listens is told nothing that is not so (I2); the
// next holder writes, and the one before is refused (I1, I4). Nothing that is counted
// is left over.
func TestAttackHangUp(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			direct := e.start(t)
			c := e.config()
			dial := func(p *proxy) net.Conn { return p.dial(t).Conn }
			if secure {
				cert, pool := certificate(t)
				c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
				dial = func(p *proxy) net.Conn {
					return tls.Client(p.dial(t).Conn, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
				}
			}
			p := start(t, c)
			for kind, large := range map[string]int{"put": 0, "large": 200 << 10, "part": 100 << 10, "complete": 0} {
				for how, leave := range leavings() {
					for i := range 9 {
						h := hangUp{e: e, p: p, direct: direct, key: fmt.Sprint(kind, how, i), kind: kind, leave: leave}
						h.run(t, dial(p), large, i)
					}
				}
			}
			eventually(t, "nobody is left", func() bool {
				p.conns.mu.Lock()
				defer p.conns.mu.Unlock()
				return p.conns.count == 0 && gauge(t, p.metrics.connections) == 0 && gauge(t, p.metrics.inFlight) == 0
			})
		})
	}
}

// hangUp is a client that does.
type hangUp struct {
	e         *env
	p, direct *proxy
	key, kind string
	leave     func(net.Conn)
}

// token is one of a resource of its own.
func (h *hangUp) token(number int64) guard.Token {
	of := token(number)
	of.Resource = h.key
	return of
}

func (h *hangUp) run(t *testing.T, conn net.Conn, size, at int) {
	t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	first := h.direct.app(t, h.token(34))
	put(t, first, h.e.bucket, h.key, "old")
	q := request{method: http.MethodPut, target: "/" + h.e.bucket + "/" + h.key, body: strings.Repeat("new", max(1, size/3)), header: carrying(t, h.token(34))}
	want := q.body
	var id string
	if h.kind == "part" || h.kind == "complete" {
		var err error
		if id, err = first.NewMultipartUpload(t.Context(), h.e.bucket, h.key, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		q.target += "?partNumber=1&uploadId=" + id
	}
	if h.kind == "complete" {
		part, err := first.PutObjectPart(t.Context(), h.e.bucket, h.key, id, 1, strings.NewReader(want), int64(len(want)), minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		q.method, q.target = http.MethodPost, "/"+h.e.bucket+"/"+h.key+"?uploadId="+id
		q.body = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.ETag + "</ETag></Part></CompleteMultipartUpload>"
	}
	head := rawRequest(t, h.p, q, fmt.Sprintf("Content-Length: %d\r\n", len(q.body)))
	text := head + q.body
	cuts := []int{1, len(head) / 2, len(head) - 1, len(head), len(head) + 1, len(head) + len(q.body)/2, len(text) - 2, len(text) - 1, len(text)}
	cut := cuts[at]
	_, _ = io.WriteString(conn, text[:cut])
	eventually(t, "it is connected", func() bool { return gauge(t, h.p.metrics.connections) == 1 })
	h.leave(conn)
	status := 0
	if res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: q.method}); err == nil {
		body, _ := io.ReadAll(res.Body)
		if status = res.StatusCode; strings.Contains(string(body), "<Error>") && status == 200 || lost(status, string(body)) {
			status = 0 // which says nothing
		}
	}
	conn.Close()
	eventually(t, "the connection has ended", func() bool { return gauge(t, h.p.metrics.connections) == 0 })
	h.judge(t, cut == len(text), status, want)
}

// judge holds what the client was told against what is there.
func (h *hangUp) judge(t *testing.T, whole bool, status int, want string) {
	t.Helper()
	got, err := get(t, h.direct.app(t, h.token(34)), h.e.bucket, h.key, minio.GetObjectOptions{})
	switch {
	case err != nil:
		t.Errorf("%s: %v", h.key, err)
	case got != "old" && (got != want || !whole || h.kind == "part"):
		t.Errorf("%s: holds %.40q of %d bytes", h.key, got, len(got))
	case status/100 == 2 && !whole, status/100 == 2 && got != want && h.kind != "part":
		t.Errorf("%s: was acknowledged, holds %.40q", h.key, got)
	case status >= 400 && got != "old":
		t.Errorf("%s: was answered %d, holds %.40q", h.key, status, got)
	}
	put(t, h.direct.app(t, h.token(35)), h.e.bucket, h.key, "next")
	_, err = tryPut(t, h.direct.app(t, h.token(34)), h.e.bucket, h.key, "stale")
	refused(t, h.key, err, 412, "FenceTokenStale")
	expectValue(t, h.direct.app(t, h.token(35)), h.e.bucket, h.key, "next")
}
