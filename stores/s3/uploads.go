package s3store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

// uploads are those of this store that are under way. The zero value is ready
// for use.
type uploads struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (u *uploads) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = map[string]bool{}
	}
	u.ids[id] = true
}

func (u *uploads) remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
}

func (u *uploads) has(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ids[id]
}

// abort ends an upload that did not become an object, even if ctx has ended.
// One that did, although nobody was told, is gone and stays what it became.
func (u *upload) abort(ctx context.Context) {
	if u.id == "" {
		return
	}
	ctx, cancel := u.store.settling(ctx)
	defer cancel()
	if err := u.store.abort(ctx, u.key, u.id); err != nil {
		u.store.config.Logger.LogAttrs(ctx, slog.LevelWarn, "upload was left",
			slog.String("key", u.key), slog.String("upload", u.id), slog.String("reason", err.Error()))
	}
	u.store.uploads.remove(u.id)
	u.id = ""
}

func (s *Store) abort(ctx context.Context, key, id string) error {
	for try := 0; ; try++ {
		err := s.core.AbortMultipartUpload(ctx, s.config.Bucket, key, id)
		if r, answered := responseOf(err); err == nil || answered && r.Code == minio.NoSuchUpload {
			return nil
		}
		if err := s.giveUp(ctx, try, err); err != nil {
			return fmt.Errorf("abort upload: %w", err)
		}
	}
}

// abortEmpty ends the upload that the server may have created although its
// reply was lost. It cannot be told from another process's on the same key that
// has no part yet; that one is begun again, or fails with ErrConflict if its
// payload can be read only once.
func (s *Store) abortEmpty(ctx context.Context, key string) {
	ctx, cancel := s.settling(ctx)
	defer cancel()
	err := s.eachUpload(ctx, key, func(m minio.ObjectMultipartInfo) error {
		if m.Key != key || s.uploads.has(m.UploadID) {
			return nil
		}
		parts, err := s.core.ListObjectParts(ctx, s.config.Bucket, key, m.UploadID, 0, 1)
		if isCode(err, minio.NoSuchUpload) { // somebody's, who has finished it
			return nil
		}
		if err != nil || len(parts.ObjectParts) > 0 {
			return err
		}
		return s.abort(ctx, key, m.UploadID)
	})
	if err != nil {
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "upload may be left", slog.String("key", key), slog.String("reason", err.Error()))
	}
}

func (s *Store) eachUpload(ctx context.Context, prefix string, f func(minio.ObjectMultipartInfo) error) error {
	var keyMarker, idMarker string
	for try := 0; ; {
		page, err := s.core.ListMultipartUploads(ctx, s.config.Bucket, prefix, keyMarker, idMarker, "", 1000)
		if err != nil {
			if err = s.giveUp(ctx, try, err); err != nil {
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

// AbortUploads ends the uploads under prefix that were begun longer than age
// ago and are not this store's, and returns how many. A process that was killed
// leaves its upload behind, which costs space and is never seen; a lifecycle
// rule of the bucket (AbortIncompleteMultipartUpload) does the same.
func (s *Store) AbortUploads(ctx context.Context, prefix string, age time.Duration) (int, error) {
	aborted := 0
	var errs []error
	err := s.eachUpload(ctx, prefix, func(m minio.ObjectMultipartInfo) error {
		if s.uploads.has(m.UploadID) || time.Since(m.Initiated) < age {
			return nil
		}
		if err := s.abort(ctx, m.Key, m.UploadID); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", m.Key, err))
			return nil
		}
		aborted++
		return nil
	})
	return aborted, errors.Join(append(errs, err)...)
}
