package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
)

const s3large = 256 << 20 // bytes

// SIGTERM lets what is under way end, however large.
func testS3DrainedInUpload(t *testing.T, s *s3site) {
	proxies := s.two()
	busy := s.slowly(proxies[0].client(33), "k", s3large)
	proxies[0].signal(syscall.SIGTERM)
	s.nobodyEnters(proxies[0].addr)
	busy.rest()
	s.must("the upload", <-busy.done)
	s.must("fenceproxy", proxies[0].Err())
	s.readsPattern(proxies[1].client(33), "k")
	s.must("the next write", put(t.Context(), proxies[1].client(33), s.bucket, "k", "small"))
}

func (s *s3site) readsPattern(c minio.Core, key string) {
	s.t.Helper()
	body, _, _, err := c.GetObject(s.t.Context(), s.bucket, key, minio.GetObjectOptions{})
	s.must("get", err)
	defer body.Close()
	s.must("the body", matches(body, s3large))
}

func testS3DrainedInDownload(t *testing.T, s *s3site) {
	p := s.proxy(s.server.Endpoint(), "")
	c := p.client(33)
	_, err := c.PutObject(t.Context(), s.bucket, "k", &pattern{size: s3large}, s3large, "", "", minio.PutObjectOptions{DisableContentSha256: true})
	s.must("put", err)
	body, info, _, err := c.GetObject(t.Context(), s.bucket, "k", minio.GetObjectOptions{})
	s.must("get", err)
	defer body.Close()
	if info.Size != s3large {
		t.Errorf("%d bytes", info.Size)
	}
	p.signal(syscall.SIGTERM)
	s.nobodyEnters(p.addr)
	s.must("the download", matches(body, s3large))
	s.must("fenceproxy", p.Err())
}

// pattern is a payload that no other offset has: its bytes tell their place.
type pattern struct{ at, size int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.size {
		return 0, io.EOF
	}
	n := min(int64(len(b)), p.size-p.at)
	for i := range b[:n] {
		at := p.at + int64(i)
		b[i] = byte(at ^ at>>8 ^ at>>16)
	}
	p.at += n
	return int(n), nil
}

// matches wants a reader to have the pattern in it, and nothing else.
func matches(r io.Reader, size int64) error {
	want, got := &pattern{size: size}, make([]byte, 256<<10)
	expected := make([]byte, len(got))
	for {
		n, err := io.ReadFull(r, got)
		m, _ := io.ReadFull(want, expected[:n])
		if m < n || string(got[:n]) != string(expected[:m]) {
			return fmt.Errorf("other bytes before %d", want.at)
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return err
		case want.at < size:
			return fmt.Errorf("%d bytes of %d", want.at, size)
		default:
			return nil
		}
	}
}

// slowPut is a write whose body ends when the test wants.
type slowPut struct {
	rest func()
	done chan error
}

// slowly begins to write the pattern, and returns when all but the last quarter of
// it is on its way: most of that has reached the server.
func (s *s3site) slowly(c minio.Core, key string, size int64) *slowPut {
	s.t.Helper()
	read, body := io.Pipe()
	p, source := &slowPut{done: make(chan error, 1)}, &pattern{size: size}
	go func() {
		_, err := c.PutObject(s.t.Context(), s.bucket, key, read, size, "", "", minio.PutObjectOptions{DisableContentSha256: true})
		_ = read.CloseWithError(errors.New("the request has ended"))
		p.done <- err
	}()
	p.rest = func() {
		_, err := io.Copy(body, source)
		_ = body.CloseWithError(err)
	}
	if _, err := io.CopyN(body, source, size*3/4); err != nil {
		s.t.Fatalf("it has ended before its body: %v, %v", err, <-p.done)
	}
	return p
}
