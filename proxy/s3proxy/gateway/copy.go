package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/origin"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// maxWhole is the most that one PUT can write behind a header, in bytes.
const maxWhole = maxPut - layout.HeaderSize

// copyObject reads one state of the source and writes it as a PUT would: the
// bytes pass through the proxy, for a copy inside the store would have the
// source's header, or none.
func (x *exchange) copyObject() error {
	dst, err := x.destination()
	if err != nil {
		return err
	}
	from, err := x.origin()
	if err != nil {
		return err
	}
	o, itself := &dst.PutOptions, from.Bucket == x.target.Bucket && from.Key == dst.Key
	if itself && !dst.ReplaceMetadata && !dst.ReplaceTags && o.StorageClass == "" && o.ServerSideEncryption == nil {
		return refusal.New(refusal.InvalidRequest, "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.")
	}
	return x.write(dst.Key, 0, func(token guard.Token) error { return x.copyUnder(token, dst, from, itself) })
}

func (x *exchange) copyUnder(token guard.Token, dst s3store.CopyDest, from *origin.Origin, itself bool) error {
	if itself {
		from.Token = token
	}
	info, err := from.Stat(x.ctx())
	if err != nil {
		return sourceError(guard.WithOutcome(err, guard.NotApplied))
	}
	if info.Size > maxWhole {
		return refusal.New(refusal.InvalidRequest, "The specified copy source is larger than the maximum allowable size for a copy source: %d", int64(maxWhole))
	}
	if from.Store != x.store {
		from.Pin(&info)
	}
	return x.late(x.g.patience, func() (s3xml.Document, error) {
		var made minio.UploadInfo
		if from.Store == x.store {
			made, err = x.store.Copy(x.ctx(), token, dst, from.Source())
			if named := from.Conditions.IfMatch; itself && errors.Is(err, s3store.ErrOlderWrite) && named != "" && named != "*" && dst.PutOptions.IfMatch == "" {
				dst.PutOptions.IfMatch = named // the client has seen what it overwrites, through another proxy
				made, err = x.store.Copy(x.ctx(), token, dst, from.Source())
			}
		} else {
			made, err = x.copyFrom(token, dst, from, &info)
		}
		if err != nil {
			return nil, sourceError(x.unmet(err, token, dst.PutOptions.IfMatch))
		}
		return s3xml.CopyObject{LastModified: time.Now(), ETag: etag.Shown(made.ETag)}, nil
	})
}

// destination is what the copy is to be.
func (x *exchange) destination() (dst s3store.CopyDest, err error) {
	h := x.r.Header
	dst.Key = x.target.Key
	if dst.PutOptions, err = header.PutOptions(h); err != nil {
		return dst, err
	}
	dst.PutOptions.IfMatch, dst.PutOptions.IfNoneMatch = etag.Named(h.Get("If-Match")), etag.Named(h.Get("If-None-Match"))
	if dst.ReplaceMetadata, err = header.Replaces(h, "metadata"); err != nil {
		return dst, err
	}
	dst.ReplaceTags, err = header.Replaces(h, "tagging")
	return dst, err
}

// origin is where the copy comes from.
func (x *exchange) origin() (*origin.Origin, error) {
	from, _, err := x.source()
	if err != nil {
		return nil, err
	}
	if from.Version != "" {
		return nil, refusal.New(refusal.NotImplemented, "Versions are not implemented by the proxy.")
	}
	o := &origin.Origin{Bucket: from.Bucket, Key: from.Key, Core: x.g.core}
	if o.Conditions, err = header.CopyConditions(x.r.Header); err != nil {
		return nil, err
	}
	c := &o.Conditions
	c.IfMatch, c.IfNoneMatch = etag.Unquoted(c.IfMatch), etag.Unquoted(c.IfNoneMatch)
	fenced, err := x.fenced(o.Bucket, o.Key)
	if err != nil || !fenced {
		return o, err
	}
	c.IfMatch, c.IfNoneMatch = etag.Named(c.IfMatch), etag.Named(c.IfNoneMatch)
	if o.Bucket == x.target.Bucket {
		o.Store = x.store
		o.Token, err = x.readToken(o.Key)
		return o, err
	}
	if o.Store, err = x.g.stores.get(o.Bucket); err != nil {
		return o, err
	}
	o.Token, err = x.tokenElsewhere(o.Store, o.Key)
	return o, err
}

// tokenElsewhere returns the token to read a key of another bucket with, which is claimed
// there as if it were read alone; the zero Token if there is none and none is needed.
func (x *exchange) tokenElsewhere(store *s3store.Store, key string) (guard.Token, error) {
	needed := x.g.config.Untokened == Deny
	if len(x.tokens) == 0 && !needed {
		return guard.Token{}, nil
	}
	token, err := store.Choose(x.ctx(), x.tokens, key)
	resource, bound := store.ResourceOf(key)
	if foreign := isNoToken(err) || err == nil && bound && resource != token.Resource; foreign && !needed {
		return guard.Token{}, nil
	}
	return token, err
}

// copyFrom copies what the destination's store does not reach. From is pinned:
// if its tags are of a later state, that state is not copied.
func (x *exchange) copyFrom(token guard.Token, dst s3store.CopyDest, from *origin.Origin, info *minio.ObjectInfo) (minio.UploadInfo, error) {
	o := dst.PutOptions
	if !dst.ReplaceMetadata {
		o = origin.Like(o, info)
	}
	if !dst.ReplaceTags {
		var err error
		if o.UserTags, err = from.Tags(x.ctx(), info); err != nil {
			return minio.UploadInfo{}, guard.WithOutcome(err, guard.NotApplied)
		}
	}
	body, size, err := from.Open(x.ctx(), header.Range{})
	var r minio.ErrorResponse
	if errors.Is(err, s3store.ErrPrecondition) || errors.As(err, &r) && r.StatusCode == http.StatusPreconditionFailed {
		err = fmt.Errorf("%w: of the source", s3store.ErrConflict) // the condition was not the client's
	}
	if err != nil {
		return minio.UploadInfo{}, guard.WithOutcome(err, guard.NotApplied)
	}
	defer body.Close()
	return x.store.Put(x.ctx(), token, dst.Key, body, size, o)
}

// sourceError is an error of a copy: a source that is not newer is a condition
// that does not hold, for a copy is no read.
func sourceError(err error) error {
	var r minio.ErrorResponse
	if errors.Is(err, s3store.ErrNotModified) || errors.As(err, &r) && r.StatusCode == http.StatusNotModified {
		e := refusal.New(refusal.PreconditionFailed, "At least one of the pre-conditions you specified did not hold")
		e.Cause = err
		return e
	}
	return err
}

// copyPart uploads as a part what it reads of another object.
func (x *exchange) copyPart() error {
	number, err := x.partNumber()
	if err != nil {
		return err
	}
	span, err := header.CopyRange(x.r.Header)
	if err != nil {
		return err
	}
	from, err := x.origin()
	if err != nil {
		return err
	}
	return x.write(x.target.Key, 0, func(token guard.Token) error { return x.copyPartUnder(token, number, from, span) })
}

func (x *exchange) copyPartUnder(token guard.Token, number int, from *origin.Origin, span header.Range) error {
	id := x.target.Query.Get("uploadId")
	return x.late(x.g.patience, func() (_ s3xml.Document, err error) {
		var part minio.ObjectPart
		if from.Store == x.store {
			part, err = x.store.CopyPart(x.ctx(), token, x.target.Key, id, number, from.Source(), span.Offset, span.Length)
		} else {
			part, err = x.copyPartFrom(token, id, number, from, span)
		}
		if r := (minio.ErrorResponse{}); errors.As(err, &r) && r.Code == minio.InvalidRange {
			return nil, x.badRange()
		}
		if err != nil {
			return nil, sourceError(err)
		}
		return s3xml.CopyPart{LastModified: time.Now(), ETag: etag.Part(number, part.ETag)}, nil
	})
}

func (x *exchange) copyPartFrom(token guard.Token, id string, number int, from *origin.Origin, span header.Range) (minio.ObjectPart, error) {
	body, size, err := from.Open(x.ctx(), span)
	if err != nil {
		return minio.ObjectPart{}, guard.WithOutcome(err, guard.NotApplied)
	}
	defer body.Close()
	if span.Length > 0 && size != span.Length {
		return minio.ObjectPart{}, x.badRange()
	}
	return x.store.UploadPart(x.ctx(), token, x.target.Key, id, number, body, size)
}

func (x *exchange) badRange() error {
	return header.Invalid("x-amz-copy-source-range", x.r.Header.Get("X-Amz-Copy-Source-Range"), "Range specified is not valid for the source object")
}
