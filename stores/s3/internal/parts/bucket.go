// Package parts uploads payloads in parts, and ends the uploads that come to
// nothing.
package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// Bucket is where uploads are. It is safe for use by many goroutines.
type Bucket struct {
	Core minio.Core
	Name string
	// Parallel is how many parts of one upload are under way at once.
	Parallel int
	// SettleTime bounds what is done after a caller's context has ended.
	SettleTime time.Duration
	Logger     *slog.Logger

	mu  sync.Mutex
	own map[string]bool // ids of the uploads that are under way here
}

// maxSkew is how far the server's clock may be behind.
const maxSkew = 5 * time.Minute

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
	for try := 0; ; try++ {
		err := b.Core.AbortMultipartUpload(ctx, b.Name, key, id)
		if r, answered := request.ResponseOf(err); err == nil || answered && r.Code == minio.NoSuchUpload {
			return nil
		}
		if err := request.GiveUp(ctx, try, err); err != nil {
			return fmt.Errorf("abort upload: %w", err)
		}
	}
}

// abortEmpty ends the upload that the server may have created although its
// reply was lost. It cannot be told from another process's on the same key that
// has no part yet; that one is begun again, or fails with ErrConflict if its
// payload can be read only once. One that was begun long before ours, as by
// the server's clock, is let alone.
func (b *Bucket) abortEmpty(ctx context.Context, key string, sent time.Time) {
	ctx, cancel := b.settling(ctx)
	defer cancel()
	err := b.Each(ctx, key, func(m minio.ObjectMultipartInfo) error {
		if m.Key != key || b.has(m.UploadID) || m.Initiated.Before(sent.Add(-maxSkew)) {
			return nil
		}
		parts, err := b.Core.ListObjectParts(ctx, b.Name, key, m.UploadID, 0, 1)
		if request.IsCode(err, minio.NoSuchUpload) { // somebody's, who has finished it
			return nil
		}
		if err != nil || len(parts.ObjectParts) > 0 {
			return err
		}
		return b.Abort(ctx, key, m.UploadID)
	})
	if err != nil {
		b.Logger.LogAttrs(ctx, slog.LevelWarn, "upload may be left", slog.String("key", key), slog.String("reason", err.Error()))
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
