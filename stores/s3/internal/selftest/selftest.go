// Package selftest sees that a server honours the conditions that the fence
// depends on. Package probe looks closer; this is what no store may start
// without (I5).
package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Tests remembers which conditions the server was seen to honour. The zero value
// is ready for use.
type Tests struct {
	puts, uploads, trailers, gone, slashes passing

	trails, honest, slashed bool // what trailers, gone and slashes have found out
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
	key    = ".fence/selftest"
	folder = ".fence/selftest-folder/"
	text   = "Fenced objects are in this bucket.\n"
	noETag = "00000000000000000000000000000000"
)

// Puts sees, once, that a PUT is refused whose condition is false: two requests,
// three in a new bucket.
func (t *Tests) Puts(ctx context.Context, b *parts.Bucket) error {
	return t.puts.do(ctx, func() error {
		put := func(c layout.Condition) error { return put(ctx, b, key, c) }
		err := honours(ctx, "If-None-Match on PUT", func() error {
			if err := put(layout.Condition{}); err != nil {
				return err
			}
			return put(layout.Condition{}) // now it is there
		})
		if err != nil {
			return err
		}
		return honours(ctx, "If-Match on PUT", func() error { return put(layout.Condition{ETag: noETag}) })
	})
}

func put(ctx context.Context, b *parts.Bucket, key string, c layout.Condition) error {
	opts := minio.PutObjectOptions{ContentType: "text/plain"}
	request.Condition(&opts, c)
	_, err := b.Core.PutObject(ctx, b.Name, key, payload.NewBody(strings.NewReader(text), int64(len(text))), int64(len(text)), "", "", opts)
	return err
}

// Uploads sees the same of a CompleteMultipartUpload, before the first upload:
// four requests for each of the two conditions. Puts comes first.
func (t *Tests) Uploads(ctx context.Context, b *parts.Bucket) error {
	return t.uploads.do(ctx, func() error {
		if err := testUpload(ctx, b, "If-Match", layout.Condition{ETag: noETag}); err != nil {
			return err
		}
		return testUpload(ctx, b, "If-None-Match", layout.Condition{}) // Puts has put it there
	})
}

// Honest finds out, once, whether the server says of an upload which is gone that it
// is gone: three requests. versitygw acknowledges its completion if there is an object
// at the key. Puts comes first.
func (t *Tests) Honest(ctx context.Context, b *parts.Bucket) (bool, error) {
	err := t.gone.do(ctx, func() error {
		id, err := b.Create(ctx, key, minio.PutObjectOptions{})
		if err != nil {
			return err
		}
		if err := b.Abort(ctx, key, id); err != nil {
			return err
		}
		u := &parts.Upload{Bucket: b, Key: key, ID: id}
		_, reply, err := u.Complete(ctx, []minio.CompletePart{{PartNumber: 1, ETag: noETag}}, layout.Condition{}) // nor could it be carried out
		if reply == layout.Lost {
			return err
		}
		t.honest = request.IsCode(err, minio.NoSuchUpload)
		return nil
	})
	return err == nil && t.honest, err
}

// Slashes finds out, once, whether the server holds a payload under a key that ends in a
// slash: one request, or two if it does not say why it does not. To one that keeps
// objects as files (versitygw) that is a folder; it says so before it has read the body,
// and a long one breaks off without a word. Puts comes first.
func (t *Tests) Slashes(ctx context.Context, b *parts.Bucket) (bool, error) {
	holds := func(key string) (bool, error) {
		err := put(ctx, b, key, layout.Condition{})
		return err == nil || request.IsStatus(err, http.StatusPreconditionFailed), err // since an earlier test
	}
	err := t.slashes.do(ctx, func() error {
		for try := 0; ; try++ {
			held, err := holds(folder)
			if !held && (request.IsStatus(err, http.StatusBadRequest) || request.IsStatus(err, http.StatusNotImplemented)) {
				if request.IsCode(err, "DirectoryObjectContainsData") {
					return nil
				}
				// So it might say of any key, as to credentials that have expired.
				if other, _ := holds(key); !other || request.IsCode(err, "RequestTimeout") {
					return fmt.Errorf("try a key that ends in a slash: %w", err)
				}
				return nil
			}
			if t.slashed = held; held {
				return nil
			}
			if err := request.GiveUp(ctx, try, err); err != nil {
				return fmt.Errorf("try a key that ends in a slash: %w", err)
			}
		}
	})
	return err == nil && t.slashed, err
}

func testUpload(ctx context.Context, b *parts.Bucket, what string, c layout.Condition) error {
	u := &parts.Upload{Bucket: b, Key: key}
	defer u.Abort(ctx)
	if err := u.Create(ctx); err != nil {
		return err
	}
	if err := u.Fill(ctx, payload.At(strings.NewReader("x"), 0, 1), parts.Filling{PartSize: 1}); err != nil {
		return err
	}
	return honours(ctx, what+" on CompleteMultipartUpload", func() error {
		_, _, err := u.Complete(ctx, nil, c)
		return err
	})
}

// honours reports whether the server refuses a request whose condition is
// false; anything else is a reason to write nothing.
func honours(ctx context.Context, what string, send func() error) error {
	for try := 0; ; try++ {
		err := send()
		switch {
		case request.IsStatus(err, http.StatusPreconditionFailed):
			return nil
		case err == nil:
			return unsupported(fmt.Errorf("the server ignores %s", what))
		case request.IsStatus(err, http.StatusNotImplemented):
			return unsupported(fmt.Errorf("the server has no %s: %w", what, err))
		}
		if err := request.GiveUp(ctx, try, err); err != nil {
			return fmt.Errorf("try %s: %w", what, err)
		}
	}
}

func unsupported(err error) error {
	return &guard.RefusedError{Reason: fmt.Errorf("%w: %w", guard.ErrUnsupported, err)}
}
