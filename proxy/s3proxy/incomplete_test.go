package s3proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// Who ends what it sends in the middle of a body, and listens, is told that this was
// not all of it, as by S3. Nothing of it is stored.
func TestIncompleteBody(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		e := newEnv(t)
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
		app := e.start(t).app(t, token(33))
		put(t, app, e.bucket, "k", "v")
		id, err := app.NewMultipartUpload(t.Context(), e.bucket, "k", minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		key := "/" + e.bucket + "/k"
		for kind, q := range map[string]request{
			"put":    {method: http.MethodPut, target: key, body: strings.Repeat("x", 100)},
			"large":  {method: http.MethodPut, target: key, body: strings.Repeat("x", 4<<20)},
			"part":   {method: http.MethodPut, target: key + "?partNumber=1&uploadId=" + id, body: strings.Repeat("x", 100)},
			"delete": {method: http.MethodPost, target: "/" + e.bucket + "?delete=", body: "<Delete><Object><Key>k</Key></Object></Delete>"},
		} {
			q.header = carrying(t, token(33))
			half := q.body[:len(q.body)/2]
			before := counted(t, p.metrics.gateway.BytesUp)
			conn := dial(p)
			_, _ = io.WriteString(conn, rawRequest(t, p, q, fmt.Sprintf("Content-Length: %d\r\n", len(q.body)))+half)
			eventually(t, "it was read", func() bool { return counted(t, p.metrics.gateway.BytesUp)-before == float64(len(half)) })
			if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || code(string(answer)) != "IncompleteBody" || !strings.Contains(string(answer), "\r\nConnection: close\r\n") || err != nil {
				t.Errorf("%s, TLS %v: %q, %v", kind, secure, answer, err)
			}
			conn.Close()
		}
		eventually(t, "nobody is left", func() bool { return gauge(t, p.metrics.connections) == 0 && gauge(t, p.metrics.inFlight) == 0 })
		expectValue(t, app, e.bucket, "k", "v")
	}
}
