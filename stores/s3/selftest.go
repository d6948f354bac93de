package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// selfTest remembers which conditions the server was seen to honour. Package
// probe looks closer; this is what no store may start without (I5). The zero
// value is ready for use.
type selfTest struct {
	puts, uploads passing
}

// passing runs a test until it has passed once.
type passing struct {
	mu      sync.Mutex
	passed  bool
	running chan struct{} // closed when the test that runs has ended; nil if none does
}

// do waits for the test of somebody else no longer than ctx lasts.
func (p *passing) do(ctx context.Context, test func() error) error {
	for {
		p.mu.Lock()
		passed, running := p.passed, p.running
		if !passed && running == nil {
			p.running = make(chan struct{})
		}
		p.mu.Unlock()
		switch {
		case passed:
			return nil
		case running == nil:
			err := errors.New("test panicked")
			defer func() { p.end(err == nil) }()
			err = test()
			return err
		}
		select {
		case <-running:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *passing) end(passed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed = passed
	close(p.running)
	p.running = nil
}

const (
	selfTestKey = ".fence/selftest"
	noETag      = "00000000000000000000000000000000"
)

// testPuts sees, once, that a PUT is refused whose condition is false: two
// requests, three in a new bucket.
func (s *Store) testPuts(ctx context.Context) error {
	return s.tested.puts.do(ctx, func() error {
		put := func(c layout.Condition) error {
			opts := minio.PutObjectOptions{ContentType: "text/plain"}
			condition(&opts, c)
			const text = "Fenced objects are in this bucket.\n"
			_, err := s.core.PutObject(ctx, s.config.Bucket, selfTestKey, newBody(strings.NewReader(text), int64(len(text))), int64(len(text)), "", "", opts)
			return err
		}
		err := s.honours(ctx, "If-None-Match on PUT", func() error {
			if err := put(layout.Condition{}); err != nil {
				return err
			}
			return put(layout.Condition{}) // now it is there
		})
		if err != nil {
			return err
		}
		return s.honours(ctx, "If-Match on PUT", func() error { return put(layout.Condition{ETag: noETag}) })
	})
}

// testUploads sees the same of a CompleteMultipartUpload, before the first
// upload: four requests for each of the two conditions.
func (s *Store) testUploads(ctx context.Context) error {
	return s.tested.uploads.do(ctx, func() error {
		if err := s.testUpload(ctx, "If-Match", layout.Condition{ETag: noETag}); err != nil {
			return err
		}
		return s.testUpload(ctx, "If-None-Match", layout.Condition{}) // testPuts has put it there
	})
}

func (s *Store) testUpload(ctx context.Context, what string, c layout.Condition) error {
	id, err := s.core.NewMultipartUpload(ctx, s.config.Bucket, selfTestKey, minio.PutObjectOptions{})
	if err != nil {
		return fmt.Errorf("create upload: %w", err)
	}
	u := &upload{store: s, key: selfTestKey, id: id}
	s.uploads.add(id)
	defer u.abort(ctx)
	if err := u.part(ctx, 1, 1, func() io.Reader { return strings.NewReader("x") }); err != nil {
		return err
	}
	return s.honours(ctx, what+" on CompleteMultipartUpload", func() error {
		_, _, err := u.complete(ctx, c)
		return err
	})
}

// honours reports whether the server refuses a request whose condition is
// false; anything else is a reason to write nothing.
func (s *Store) honours(ctx context.Context, what string, request func() error) error {
	for try := 0; ; try++ {
		err := request()
		switch r, answered := responseOf(err); {
		case isStatus(err, http.StatusPreconditionFailed):
			return nil
		case err == nil:
			return refuse(guard.Token{}, fmt.Errorf("%w: the server ignores %s", guard.ErrUnsupported, what))
		case answered && r.StatusCode == http.StatusNotImplemented:
			return refuse(guard.Token{}, fmt.Errorf("%w: the server has no %s: %w", guard.ErrUnsupported, what, err))
		}
		if err := s.giveUp(ctx, try, err); err != nil {
			return fmt.Errorf("try %s: %w", what, err)
		}
	}
}
