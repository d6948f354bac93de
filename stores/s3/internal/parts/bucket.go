// Package parts uploads payloads in parts, and ends the uploads that come to
// nothing.
package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// Bucket is where uploads are. It is safe for use by many goroutines.
type Bucket struct {
	Core minio.Core
	// Objects uploads parts in the place of Core.
	Objects interface {
		PutObjectPart(ctx context.Context, bucket, key, uploadID string, number int, body io.Reader, size int64, o minio.PutObjectPartOptions) (minio.ObjectPart, error)
	}
	Name string
	// Parallel is how many parts of one upload are under way at once.
	Parallel int
	// SettleTime bounds what is done after a caller's context has ended.
	SettleTime time.Duration
	Logger     *slog.Logger

	mu  sync.Mutex
	own map[string]bool // ids of the uploads that are under way here
}

func (b *Bucket) add(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own == nil {
		b.own = map[string]bool{}
	}
	b.own[id] = true
}

func (b *Bucket) remove(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.own, id)
}

func (b *Bucket) has(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own[id]
}

// settling returns a context for what is still to be done even because ctx has
// ended.
func (b *Bucket) settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), b.SettleTime)
}

// Abort ends an upload; no error if it is gone. One that became an object stays
// what it became.
func (b *Bucket) Abort(ctx context.Context, key, id string) error {
	if err := b.End(ctx, key, id); !request.IsCode(err, minio.NoSuchUpload) {
		return err
	}
	return nil
}

// End is Abort, but with the error NoSuchUpload if it was gone before.
func (b *Bucket) End(ctx context.Context, key, id string) error {
	for try, denied := 0, true; ; try++ {
		err := b.Core.AbortMultipartUpload(ctx, b.Name, key, id)
		if err == nil || try > 0 && request.IsCode(err, minio.NoSuchUpload) {
			return nil
		}
		denied = denied && request.Final(err)
		if err := request.GiveUp(ctx, try, err); err != nil {
			err = fmt.Errorf("abort upload: %w", err)
			if denied {
				err = guard.WithOutcome(err, guard.NotApplied)
			}
			return err
		}
	}
}

// errNoID is about an answer that says that an upload was begun and not which, as
// one with status 200 that holds an error.
var errNoID = errors.New("the server has begun an upload that it does not name")

// Create begins an upload, again if it has to: one that nobody was told of has no
// parts and can never be completed. It is left, for it cannot be told from others
// of the same key that have no part yet. Versitygw answers 500 when another upload
// of the key ends at the same moment.
func (b *Bucket) Create(ctx context.Context, key string, o minio.PutObjectOptions) (id string, err error) {
	for try := 0; ; try++ {
		id, err = b.Core.NewMultipartUpload(ctx, b.Name, key, o)
		if err == nil && id != "" {
			return id, nil
		}
		if err == nil {
			err = errNoID
		}
		if _, answered := request.ResponseOf(err); !answered {
			b.Logger.LogAttrs(ctx, slog.LevelWarn, "upload may be left", slog.String("key", key), slog.String("reason", err.Error()))
		}
		if err := request.GiveUp(ctx, try, err); err != nil {
			return "", fmt.Errorf("create upload: %w", err)
		}
	}
}

// Each calls f with every upload under prefix that is under way.
func (b *Bucket) Each(ctx context.Context, prefix string, f func(minio.ObjectMultipartInfo) error) error {
	var keyMarker, idMarker string
	for try := 0; ; {
		page, err := b.Core.ListMultipartUploads(ctx, b.Name, prefix, keyMarker, idMarker, "", 1000)
		if err != nil {
			if err = request.GiveUp(ctx, try, err); err != nil {
				return fmt.Errorf("list uploads: %w", err)
			}
			try++
			continue
		}
		try = 0
		for _, m := range page.Uploads {
			if err := f(m); err != nil {
				return err
			}
		}
		if !page.IsTruncated {
			return nil
		}
		keyMarker, idMarker = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// AbortOlder ends the uploads under prefix that were begun longer than age ago and
// are not under way here, and returns how many.
func (b *Bucket) AbortOlder(ctx context.Context, prefix string, age time.Duration) (int, error) {
	aborted := 0
	var errs []error
	err := b.Each(ctx, prefix, func(m minio.ObjectMultipartInfo) error {
		if b.has(m.UploadID) || time.Since(m.Initiated) < age {
			return nil
		}
		if err := b.Abort(ctx, m.Key, m.UploadID); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", m.Key, err))
			return nil
		}
		aborted++
		return nil
	})
	return aborted, errors.Join(append(errs, err)...)
}
