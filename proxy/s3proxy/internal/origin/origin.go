package origin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// Origin is an object that is to be copied.
type Origin struct {
	Bucket, Key string
	// Store has it, if it is fenced, and Token is the one to read it under; nil:
	// it is not fenced, and Core reads it.
	Store *s3store.Store
	Token guard.Token
	Core  minio.Core
	// Conditions are those of the read.
	Conditions s3store.GetOptions
}

// Source is the origin as a store takes it which is the destination's too.
func (o *Origin) Source() s3store.CopySource {
	c := &o.Conditions
	return s3store.CopySource{
		Key: o.Key, Token: o.Token, IfMatch: c.IfMatch, IfNoneMatch: c.IfNoneMatch,
		IfModifiedSince: c.IfModifiedSince, IfUnmodifiedSince: c.IfUnmodifiedSince,
	}
}

// Pin makes the state that info tells of the only one that is read.
func (o *Origin) Pin(info *minio.ObjectInfo) {
	o.Conditions = s3store.GetOptions{Unseen: true, IfMatch: info.ETag}
}

// Stat tells of the object, if the conditions hold.
func (o *Origin) Stat(ctx context.Context) (minio.ObjectInfo, error) {
	if o.Store != nil {
		return o.Store.Stat(ctx, o.Token, o.Key, o.Conditions)
	}
	opts, err := o.bare()
	if err != nil {
		return minio.ObjectInfo{}, err
	}
	info, err := o.Core.StatObject(ctx, o.Bucket, o.Key, opts)
	if err != nil {
		return info, fmt.Errorf("stat source: %w", err)
	}
	return info, nil
}

// Open reads a range, and tells how many bytes of it there are.
func (o *Origin) Open(ctx context.Context, r header.Range) (io.ReadCloser, int64, error) {
	if o.Store != nil {
		c := o.Conditions
		c.Offset, c.Length = r.Offset, r.Length
		object, err := o.Store.Get(ctx, o.Token, o.Key, c)
		if err != nil {
			return nil, 0, err
		}
		return object, object.Length, nil
	}
	opts, err := o.bare()
	if err == nil && r.Length > 0 {
		err = opts.SetRange(r.Offset, r.Offset+r.Length-1)
	}
	if err != nil {
		return nil, 0, err
	}
	body, info, _, err := o.Core.GetObject(ctx, o.Bucket, o.Key, opts)
	if err != nil {
		return nil, 0, fmt.Errorf("read source: %w", err)
	}
	return body, info.Size, nil
}

// bare are the conditions of an object that is not fenced.
func (o *Origin) bare() (opts minio.GetObjectOptions, err error) {
	c := &o.Conditions
	if c.IfMatch != "" {
		err = errors.Join(err, opts.SetMatchETag(c.IfMatch))
	}
	if c.IfNoneMatch != "" {
		err = errors.Join(err, opts.SetMatchETagExcept(c.IfNoneMatch))
	}
	if !c.IfModifiedSince.IsZero() {
		err = errors.Join(err, opts.SetModified(c.IfModifiedSince))
	}
	if !c.IfUnmodifiedSince.IsZero() {
		err = errors.Join(err, opts.SetUnmodified(c.IfUnmodifiedSince))
	}
	return opts, err
}

// Tags are those of the object of which info tells.
func (o *Origin) Tags(ctx context.Context, info *minio.ObjectInfo) (map[string]string, error) {
	if info.UserTagCount == 0 {
		return nil, nil
	}
	if o.Store != nil {
		return o.Store.Tags(ctx, o.Token, o.Key)
	}
	t, err := o.Core.GetObjectTagging(ctx, o.Bucket, o.Key, minio.GetObjectTaggingOptions{})
	if err != nil {
		return nil, fmt.Errorf("read tags of source: %w", err)
	}
	return t.ToMap(), nil
}

// Like returns put with what is stored beside the payload of which info tells.
func Like(put s3store.PutOptions, info *minio.ObjectInfo) s3store.PutOptions {
	h := info.Metadata
	put.UserMetadata = make(map[string]string, len(info.UserMetadata))
	for name, value := range info.UserMetadata {
		put.UserMetadata["x-amz-meta-"+name] = value // in full: the name may begin so itself
	}
	put.ContentType, put.Expires, put.ExpiresText = info.ContentType, info.Expires, s3store.Expires(info)
	put.ContentEncoding = header.WithoutChunked(h.Get("Content-Encoding"))
	put.ContentDisposition, put.ContentLanguage, put.CacheControl = h.Get("Content-Disposition"), h.Get("Content-Language"), h.Get("Cache-Control")
	return put
}
