package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

// After SIGTERM a request that is under way is answered, and nobody else gets in.
func testServeS3Drain(t *testing.T, s *clitest.Shop) {
	p := s.Serve(clitest.OneShop)
	addr := p.Addr("127.0.0.1:0")
	busy := begin(s, p, addr, "k")
	p.Signal(syscall.SIGTERM)
	p.Await(`"msg":"draining"`, `"requests":1`)
	if status, text := p.Get("/readyz"); status != 503 || !strings.Contains(text, "shutting down") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	clitest.Until(t, "nobody else gets in", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	s.Stores(busy.end())
	p.Ends(0, "stopped")
	if strings.Contains(p.Log(), "cutting") {
		t.Error("requests were cut")
	}
	again := s.Serve(clitest.OneShop)
	s.Holds(again.Addr("127.0.0.1:0"), strings.Repeat("\x00", 4<<20))
}

func testServeS3DrainCut(t *testing.T, s *clitest.Shop) {
	p := s.Serve(clitest.OneShop)
	busy := begin(s, p, p.Addr("127.0.0.1:0"), "k")
	p.Signal(syscall.SIGTERM)
	p.Await("draining")
	p.Signal(syscall.SIGINT)
	p.Ends(130, "fenceproxy: stopped by SIGINT after SIGTERM: what was left was cut")
	if code := busy.end(); code == "" {
		t.Error("written")
	}
	absent(s, "k")
}

func testServeS3DrainOverdue(_ *testing.T, s *clitest.Shop) {
	p := s.Serve("shutdown_timeout: 100ms\n" + clitest.OneShop)
	begin(s, p, p.Addr("127.0.0.1:0"), "k")
	p.Signal(syscall.SIGTERM)
	p.Ends(1, "fenceproxy: sessions or requests did not end in time (shutdown_timeout 100ms): what was left was cut")
	absent(s, "k")
}

// absent wants nothing at a key.
func absent(s *clitest.Shop, key string) {
	s.T.Helper()
	p := s.Serve(clitest.OneShop)
	_, code := s.Customer(p.Addr("127.0.0.1:0"), 0).Get(key)
	s.Refuses(code, "NoSuchKey")
}

// slow is a write whose body comes when the test wants.
type slow struct {
	body *io.PipeWriter
	code chan string
}

// begin begins to write key, and returns when half of it is on its way.
func begin(s *clitest.Shop, p *clitest.Proxy, addr, key string) *slow {
	s.T.Helper()
	const size = 4 << 20
	read, body := io.Pipe()
	w := &slow{body, make(chan string, 1)}
	c := s.Customer(addr, 34)
	go func() {
		_, err := c.PutObject(context.WithoutCancel(s.T.Context()), s.Bucket, key, read, size, "", "", minio.PutObjectOptions{DisableContentSha256: true})
		_ = read.CloseWithError(errors.New("the request has ended"))
		w.code <- clitest.S3Code(err)
	}()
	_, err := body.Write(make([]byte, size/2))
	clitest.Must(s.T, err)
	s.T.Cleanup(func() { body.Close() })
	clitest.Until(s.T, "the request is there", func() bool {
		_, text := p.Get("/metrics")
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
