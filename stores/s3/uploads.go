package s3store

import (
	"context"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/uploadid"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// AbortUpload ends an upload and frees its parts. Its own token may, and any
// newer one of that resource; an id from ListUploads is ended by any token that
// may write the key now. If the upload is gone the error has the code NoSuchUpload.
//
// An upload whose completion is under way may become an object nevertheless.
func (s *Store) AbortUpload(ctx context.Context, token guard.Token, key, id string) error {
	g, opened, err := s.openUpload(ctx, token, key, id)
	if err == nil && opened.Listed() {
		err = s.check(ctx, token, key, func(ctx context.Context, g layout.Grant) error { return s.admits(ctx, g, key) })
	}
	if err == nil && !g.Wrote(opened.Header) { // it has to be current, for it ends another's
		s.claims.Forget(token)
		_, err = s.claimed(ctx, token)
	}
	if err != nil {
		return s.done(ctx, "abort upload of", key, notApplied(err))
	}
	err = s.parts.End(ctx, key, opened.Upstream)
	if request.IsCode(err, minio.NoSuchUpload) {
		err = notApplied(errNoUpload(key, err))
	}
	return s.done(ctx, "abort upload of", key, err)
}

// UploadsOptions are the options of one list of uploads.
type UploadsOptions struct {
	// Prefix is what the keys start with.
	Prefix string
	// Delimiter rolls up keys that have it behind the prefix.
	Delimiter string
	// KeyMarker and UploadIDMarker are where the list goes on: NextKeyMarker and
	// NextUploadIDMarker of the one before.
	KeyMarker, UploadIDMarker string
	// Max is how many uploads are returned at most. Defaults to 1000.
	Max int
}

// ListUploads lists the uploads that are under way. The ids in it are good for
// AbortUpload and ListParts only: the server does not know under which token an
// upload was begun. Uploads of Put's are among them.
func (s *Store) ListUploads(ctx context.Context, token guard.Token, o UploadsOptions) (minio.ListMultipartUploadsResult, error) {
	r, err := s.listUploads(ctx, token, o)
	return r, s.done(ctx, "list uploads", o.Prefix, err)
}

func (s *Store) listUploads(ctx context.Context, token guard.Token, o UploadsOptions) (minio.ListMultipartUploadsResult, error) {
	var none minio.ListMultipartUploadsResult
	if err := s.sharesUploads(token); err != nil {
		return none, err
	}
	if _, err := s.reader(ctx, token, ""); err != nil {
		return none, err
	}
	if o.Max <= 0 || o.Max > 1000 {
		o.Max = 1000
	}
	marker := o.UploadIDMarker
	if opened, err := uploadid.Open(s.config.UploadKey, s.config.Bucket, o.KeyMarker, marker); err == nil {
		marker = opened.Upstream
	}
	r, err := s.core.ListMultipartUploads(ctx, s.config.Bucket, o.Prefix, o.KeyMarker, marker, o.Delimiter, o.Max)
	if err != nil {
		return none, err
	}
	r.KeyMarker, r.UploadIDMarker = o.KeyMarker, o.UploadIDMarker
	uploads := r.Uploads[:0]
	for _, u := range r.Uploads {
		if layout.Reserved(u.Key) {
			continue
		}
		u.UploadID = s.listedID(u.Key, u.UploadID)
		uploads = append(uploads, u)
	}
	r.Uploads = uploads
	prefixes := r.CommonPrefixes[:0]
	for _, p := range r.CommonPrefixes {
		if !layout.Reserved(p.Prefix) {
			prefixes = append(prefixes, p)
		}
	}
	r.CommonPrefixes = prefixes
	if r.NextUploadIDMarker != "" {
		r.NextUploadIDMarker = s.listedID(r.NextKeyMarker, r.NextUploadIDMarker)
	}
	return r, nil
}

// listedID is the server's own id where the upload is none of the store's business.
func (s *Store) listedID(key, upstream string) string {
	if s.unfenced(key) {
		return upstream
	}
	if _, bound := s.ResourceOf(key); !bound && s.config.OnlyPrefixes {
		return upstream
	}
	return uploadid.Seal(s.config.UploadKey, s.config.Bucket, key, uploadid.ID{Upstream: upstream})
}

// ListParts lists the parts of an upload from the one behind marker on, at most
// limit of them, 1000 if it is 0. Their sizes are those of the payload; its
// token is any that may write the key.
func (s *Store) ListParts(ctx context.Context, token guard.Token, key, id string, marker, limit int) (minio.ListObjectPartsResult, error) {
	r, err := s.listParts(ctx, token, key, id, marker, limit)
	return r, s.done(ctx, "list parts of", key, err)
}

func (s *Store) listParts(ctx context.Context, token guard.Token, key, id string, marker, limit int) (minio.ListObjectPartsResult, error) {
	var none minio.ListObjectPartsResult
	if err := s.sharesUploads(token); err != nil {
		return none, err
	}
	if _, err := s.reader(ctx, token, key); err != nil {
		return none, err
	}
	opened, err := uploadid.Open(s.config.UploadKey, s.config.Bucket, key, id)
	if err != nil {
		return none, errNoUpload(key, err)
	}
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	r, err := s.core.ListObjectParts(ctx, s.config.Bucket, key, opened.Upstream, marker, limit)
	if err != nil {
		return none, err
	}
	r.UploadID = id
	for i := range r.ObjectParts {
		p := &r.ObjectParts[i]
		p.ETag = strings.Trim(p.ETag, `"`)
		if p.PartNumber == 1 {
			p.Size = max(p.Size-layout.HeaderSize, 0)
		}
	}
	return r, nil
}

// AbortUploads ends the uploads under prefix that were begun longer than age
// ago and are not this store's Puts, and returns how many. A process that was killed
// leaves its upload behind, which costs space and is never seen; a lifecycle
// rule of the bucket (AbortIncompleteMultipartUpload) does the same.
func (s *Store) AbortUploads(ctx context.Context, prefix string, age time.Duration) (int, error) {
	return s.parts.AbortOlder(ctx, prefix, age)
}
