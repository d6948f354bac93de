package e2e_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// TestS3ProxyHostile: what clients do on purpose, or never end, costs the process
// little, and nobody else anything.
func TestS3ProxyHostile(t *testing.T) {
	t.Parallel()
	eachS3Site(t, map[string]func(*testing.T, *s3site){
		"10000 idle connections": testS3Idle,
		"slow headers":           testS3SlowHeaders,
		"slow bodies":            testS3SlowBodies,
		"large headers":          testS3LargeHeaders,
	})
}

// dialed is a connection to a process, on which a test says what it likes.
type dialed struct {
	net.Conn

	in *bufio.Reader
}

func (p *s3proxy) dial() *dialed {
	p.site.t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.site.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	p.site.t.Cleanup(func() { conn.Close() })
	return &dialed{conn, bufio.NewReaderSize(conn, 512)}
}

// head is that of a request under a token, for a body of so many bytes.
func (p *s3proxy) head(method, target string, size int64, n int64) string {
	p.site.t.Helper()
	req, err := http.NewRequestWithContext(p.site.t.Context(), method, "http://"+p.addr+target, http.NoBody)
	if err != nil {
		p.site.t.Fatal(err)
	}
	req.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	req = signer.SignV4(*req, "app", "s3cret-of-the-app", s3number(n).String(), p.site.server.Region)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, target, p.addr, size)
	_ = req.Header.Write(&b)
	return b.String() + "\r\n"
}

// answer reads an answer: its status and S3's code.
func (d *dialed) answer() (int, string, error) {
	res, err := http.ReadResponse(d.in, nil)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	_, rest, _ := strings.Cut(string(body), "<Code>")
	code, _, _ := strings.Cut(rest, "</Code>")
	return res.StatusCode, code, err
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// resident is how much memory the process has, in MiB.
func (p *s3proxy) resident() int {
	t := p.site.t
	t.Helper()
	status := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid)))(t))
	_, rest, _ := strings.Cut(status, "VmRSS:")
	return must(strconv.Atoi(strings.Fields(rest)[0]))(t) / 1024
}

// 10,000 connections, half of which have asked something and been answered, and
// half of which nothing was ever heard of.
func testS3Idle(t *testing.T, s *s3site) {
	const many, most = 10_000, 512 // MiB
	p := s.proxy(s.server.Endpoint(), "    header_timeout: 5m\n    idle_timeout: 5m")
	c := p.client(33)
	s.must("put", put(t.Context(), c, s.bucket, "k", "v"))
	before := p.resident()
	text := p.head(http.MethodHead, "/"+s.bucket+"/k", 0, 33)
	conns := make([]*dialed, many)
	for i := range conns {
		conns[i] = p.dial()
	}
	var failed atomic.Int64
	atOnce(16, func(w int) {
		for i := w; i < many; i += 16 {
			if i%2 == 0 {
				continue
			}
			_, err := io.WriteString(conns[i], text)
			res, no := http.ReadResponse(conns[i].in, &http.Request{Method: http.MethodHead})
			if err != nil || no != nil || res.StatusCode != http.StatusOK {
				failed.Add(1)
			}
		}
	})
	if n := failed.Load(); n > 0 {
		t.Errorf("%d connections were not served", n)
	}
	s.eventually("all are there", func() bool {
		_, rest, _ := strings.Cut(p.metrics(), fmt.Sprintf("fenceproxy_s3_connections{listen=%q} ", p.addr))
		n, _, _ := strings.Cut(rest, "\n")
		got, _ := strconv.ParseFloat(n, 64)
		return got >= many
	})
	after := p.resident()
	t.Logf("%d idle connections: %d MiB, %d MiB without them: %.1f KiB each", many, after, before, float64(after-before)*1024/many)
	if after-before > most {
		t.Errorf("more than %d MiB", most)
	}
	s.must("put among them", put(t.Context(), c, s.bucket, "k", "w"))
	s.holds("k", "w")
}

// Headers that come byte by byte, or stop coming, are waited for as long as is
// configured and no longer.
func testS3SlowHeaders(t *testing.T, s *s3site) {
	const many = 200
	p := s.proxy(s.server.Endpoint(), "    header_timeout: 700ms")
	c := p.client(33)
	s.must("put", put(t.Context(), c, s.bucket, "k", "v"))
	whole := p.head(http.MethodPut, "/"+s.bucket+"/k", 0, 33)
	conns := make([]*dialed, many)
	for i := range conns {
		conns[i] = p.dial()
	}
	atOnce(many, func(i int) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for at := 0; at < len(whole) && i%2 == 0; at++ { // of the others nothing comes
			if _, err := io.WriteString(conns[i], whole[at:at+1]); err != nil {
				return
			}
			<-tick.C
		}
		if status, code, err := conns[i].answer(); err == nil && status/100 != 4 || isTimeout(err) {
			t.Errorf("%d %s, %v", status, code, err)
		}
	})
	s.must("put", put(t.Context(), c, s.bucket, "k", "w"))
	s.holds("k", "w")
}

// Bodies that stop coming end their requests in the time that is configured, and
// nothing of them is stored.
func testS3SlowBodies(t *testing.T, s *s3site) {
	const many = 64
	p := s.proxy(s.server.Endpoint(), "    max_body_time: 700ms")
	c := p.client(33)
	id, _ := s.upload(c, "k", "part")
	s.must("put", put(t.Context(), c, s.bucket, "k", "v"))
	conns := make([]*dialed, many)
	for i := range conns {
		conns[i] = p.dial()
	}
	atOnce(many, func(i int) {
		method, target, size := http.MethodPut, "/"+s.bucket+"/k", int64(100)
		switch i % 4 {
		case 1:
			size = 4 << 20
		case 2:
			target += "?partNumber=1&uploadId=" + id
		case 3:
			method, target = http.MethodPost, target+"?uploadId="+id
		}
		_, _ = io.WriteString(conns[i], p.head(method, target, size, 33))
		_, _ = conns[i].Write(make([]byte, size/2))
		if status, code, err := conns[i].answer(); status != 400 || code != "RequestTimeout" {
			t.Errorf("%s %s: %d %s, %v", method, target, status, code, err)
		}
		if _, err := io.Copy(io.Discard, conns[i].in); isTimeout(err) {
			t.Error("the connection is still there")
		}
	})
	s.holds("k", "v")
	s.must("put", put(t.Context(), c, s.bucket, "k", "w"))
	if parts, err := c.ListObjectParts(t.Context(), s.bucket, "k", id, 0, 10); err != nil || len(parts.ObjectParts) != 1 || parts.ObjectParts[0].Size != 4 {
		t.Errorf("parts: %+v, %v", parts.ObjectParts, err)
	}
	s.eventually("no request is left", func() bool {
		return strings.Contains(p.metrics(), fmt.Sprintf("fenceproxy_s3_requests_in_flight{listen=%q} 0\n", p.addr))
	})
}

// Headers are read up to a size; what is larger is refused before it is kept.
func testS3LargeHeaders(t *testing.T, s *s3site) {
	const many, most = 64, 200 // MiB
	p := s.proxy(s.server.Endpoint(), "")
	c := p.client(33)
	s.must("put", put(t.Context(), c, s.bucket, "k", "v"))
	before := p.resident()
	conns := make([]*dialed, many)
	for i := range conns {
		conns[i] = p.dial()
	}
	atOnce(many, func(i int) {
		head, a := "PUT /"+s.bucket+"/k HTTP/1.1\r\nHost: x\r\n", strings.Repeat("a", 1<<20)
		switch i % 4 {
		case 1: // many
			a = strings.Repeat("A: b\r\n", 1<<18)
		case 2: // a request line
			head = "PUT /" + s.bucket + "/"
		case 3: // a name
			a += ": b"
		default:
			head += "A: "
		}
		for range 8 { // 8 MiB, of which most is never read
			if _, err := io.WriteString(conns[i], head+a); err != nil {
				return
			}
			head = ""
		}
		if status, code, err := conns[i].answer(); err == nil && status != 431 && status != 400 || isTimeout(err) {
			t.Errorf("%d: %d %s, %v", i%4, status, code, err)
		}
	})
	after := p.resident()
	t.Logf("%d headers of 8 MiB: %d MiB, %d MiB before", many, after, before)
	if after-before > most {
		t.Errorf("more than %d MiB", most)
	}
	o := minio.PutObjectOptions{UserMetadata: map[string]string{"m": strings.Repeat("m", 3<<10)}}
	_, err := c.PutObject(t.Context(), s.bucket, "k", strings.NewReader("w"), 1, "", "", o)
	s.refused("metadata of 3 KiB", err, "MetadataTooLarge")
	s.holds("k", "v")
	s.must("put", put(t.Context(), c, s.bucket, "k", "w"))
}
