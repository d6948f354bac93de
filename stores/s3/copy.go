package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/net/http/httpguts"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// CopyDest is where a copy goes.
type CopyDest struct {
	// Key is the key to be written.
	Key string
	// ReplaceMetadata stores PutOptions' metadata and content headers in place of
	// the source's.
	ReplaceMetadata bool
	// ReplaceTags stores PutOptions' tags in place of the source's.
	ReplaceTags bool
	// PutOptions are those of the write; its conditions always count.
	PutOptions PutOptions
}

// CopySource is where a copy comes from.
type CopySource struct {
	// Key is the key to be read.
	Key string
	// Token is the one to read it under, if it belongs to another resource.
	// Defaults to the one that the copy is written under.
	Token guard.Token
	// IfMatch and IfNoneMatch are the conditions of the read.
	IfMatch, IfNoneMatch string
	// IfModifiedSince and IfUnmodifiedSince are more of them.
	IfModifiedSince, IfUnmodifiedSince time.Time
}

// options are those of the read. It shows the holder nothing of the source.
func (src *CopySource) options(offset, length int64) *GetOptions {
	return &GetOptions{
		Unseen: true,
		Offset: offset, Length: length, IfMatch: src.IfMatch, IfNoneMatch: src.IfNoneMatch,
		IfModifiedSince: src.IfModifiedSince, IfUnmodifiedSince: src.IfUnmodifiedSince,
	}
}

// Copy copies an object under token: a read of one state of the source, and a
// write like Put's of what it read under a header of its own. The bytes pass
// through this process, for S3's CopyObject neither adds a header nor, on every
// store, honours a condition.
func (s *Store) Copy(ctx context.Context, token guard.Token, dst CopyDest, src CopySource) (minio.UploadInfo, error) {
	info, err := s.copy(ctx, token, dst, src)
	return info, s.done(ctx, "copy to", dst.Key, err)
}

func (s *Store) copy(ctx context.Context, token guard.Token, dst CopyDest, src CopySource) (minio.UploadInfo, error) {
	if src.Token == (guard.Token{}) {
		src.Token = token
	}
	g, err := s.writer(ctx, token, dst.Key) // before anything is read
	if err != nil {
		return minio.UploadInfo{}, notApplied(err)
	}
	options := src.options(0, 0)
	if _, seen := s.known.Find(g, dst.Key); src.Key == dst.Key && !seen { // what is written is of this state, and overwrites no other
		options.Unseen = false
	}
	from, err := s.get(ctx, src.Token, src.Key, options)
	if err != nil {
		return minio.UploadInfo{}, notApplied(fmt.Errorf("read source %q: %w", src.Key, err))
	}
	defer from.Close()
	o := dst.PutOptions
	if !dst.ReplaceMetadata {
		o = likeSource(o, &from.Info)
	}
	if !dst.ReplaceTags {
		if o.UserTags, err = s.tagsOf(ctx, src.Key, &from.Info); err != nil {
			return minio.UploadInfo{}, notApplied(fmt.Errorf("read source %q: %w", src.Key, err))
		}
	}
	return s.put(ctx, token, dst.Key, s.reread(src, from, 0, 0), o, layout.Wish{})
}

// reread is a payload of what is being read of another object, read again in the
// same state if need be.
func (s *Store) reread(src CopySource, from *Object, offset, length int64) *payload.Payload {
	first := io.ReadCloser(from)
	return payload.From(from.Length, func(ctx context.Context) (io.ReadCloser, error) {
		if r := first; r != nil {
			first = nil
			return r, nil
		}
		r, err := s.get(ctx, src.Token, src.Key, &GetOptions{Unseen: true, IfMatch: from.Info.ETag, Offset: offset, Length: length})
		if errors.Is(err, ErrPrecondition) { // which was not the caller's
			err = fmt.Errorf("%w: while it was copied", ErrConflict)
		}
		if err != nil {
			return nil, fmt.Errorf("read source %q again: %w", src.Key, err)
		}
		return r, nil
	})
}

// likeSource returns o with what is stored beside the payload of the source.
func likeSource(o PutOptions, from *minio.ObjectInfo) PutOptions {
	o.UserMetadata = make(map[string]string, len(from.UserMetadata))
	for name, value := range from.UserMetadata {
		if !httpguts.ValidHeaderFieldValue(value) { // minio-go has decoded it
			value = mime.BEncoding.Encode("UTF-8", value)
		}
		o.UserMetadata[metaPrefix+name] = value // in full: the name may begin so itself
	}
	o.ContentType, o.ContentEncoding = from.ContentType, stripChunked(from.ContentEncoding)
	o.Expires, o.ExpiresText = from.Expires, Expires(from)
	o.ContentDisposition, o.ContentLanguage = from.Metadata.Get("Content-Disposition"), from.Metadata.Get("Content-Language")
	o.CacheControl = from.Metadata.Get("Cache-Control")
	return o
}

// stripChunked removes the coding of the transfer, which some stores keep.
func stripChunked(encoding string) string {
	codings := strings.FieldsFunc(encoding, func(r rune) bool { return r == ',' || r == ' ' })
	return strings.Join(slices.DeleteFunc(codings, func(c string) bool { return c == "aws-chunked" }), ",")
}
