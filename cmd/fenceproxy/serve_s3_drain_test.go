package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
)

// After SIGTERM a request that is under way is answered, and nobody else gets in.
func testServeS3Drain(t *testing.T, s *shop) {
	p := s.serve(oneShop)
	addr := p.addr("127.0.0.1:0")
	busy := begin(s, p, addr, "k")
	p.signal(syscall.SIGTERM)
	p.await(`"msg":"draining"`, `"requests":1`)
	if status, text := p.get("/readyz"); status != 503 || !strings.Contains(text, "shutting down") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	until(t, "nobody else gets in", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	s.stores(busy.end())
	p.ends(0, "stopped")
	if strings.Contains(p.log(), "cutting") {
		t.Error("requests were cut")
	}
	again := s.serve(oneShop)
	s.holds(again.addr("127.0.0.1:0"), strings.Repeat("\x00", 4<<20))
}

func testServeS3DrainCut(t *testing.T, s *shop) {
	p := s.serve(oneShop)
	busy := begin(s, p, p.addr("127.0.0.1:0"), "k")
	p.signal(syscall.SIGTERM)
	p.await("draining")
	p.signal(syscall.SIGINT)
	p.ends(130, "fenceproxy: stopped by SIGINT after SIGTERM: what was left was cut")
	if code := busy.end(); code == "" {
		t.Error("written")
	}
	absent(s, "k")
}

func testServeS3DrainOverdue(_ *testing.T, s *shop) {
	p := s.serve("shutdown_timeout: 100ms\n" + oneShop)
	begin(s, p, p.addr("127.0.0.1:0"), "k")
	p.signal(syscall.SIGTERM)
	p.ends(1, "fenceproxy: sessions or requests did not end in time (shutdown_timeout 100ms): what was left was cut")
	absent(s, "k")
}

// absent wants nothing at a key.
func absent(s *shop, key string) {
	s.t.Helper()
	p := s.serve(oneShop)
	_, code := s.customer(p.addr("127.0.0.1:0"), 0).get(key)
	s.refuses(code, "NoSuchKey")
}

// slow is a write whose body comes when the test wants.
type slow struct {
	body *io.PipeWriter
	code chan string
}

// begin begins to write key, and returns when half of it is on its way.
func begin(s *shop, p *proxy, addr, key string) *slow {
	s.t.Helper()
	const size = 4 << 20
	read, body := io.Pipe()
	w := &slow{body, make(chan string, 1)}
	c := s.customer(addr, 34)
	go func() {
		_, err := c.PutObject(context.WithoutCancel(s.t.Context()), s.bucket, key, read, size, "", "", minio.PutObjectOptions{DisableContentSha256: true})
		_ = read.CloseWithError(errors.New("the request has ended"))
		w.code <- s3Code(err)
	}()
	_, err := body.Write(make([]byte, size/2))
	must(s.t, err)
	s.t.Cleanup(func() { body.Close() })
	until(s.t, "the request is there", func() bool {
		_, text := p.get("/metrics")
		return strings.Contains(text, `fenceproxy_s3_requests_in_flight{listen="127.0.0.1:0"} 1`)
	})
	return w
}

// end sends the rest, and returns the code of the answer.
func (w *slow) end() string {
	_, _ = w.body.Write(make([]byte, 2<<20))
	_ = w.body.Close()
	return <-w.code
}
