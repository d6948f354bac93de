package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/upstream"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func (x *exchange) putObject() error {
	p, err := x.payload()
	if err != nil {
		return err
	}
	if p.Size() > maxWhole {
		return refusal.New(refusal.EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
	}
	o, err := header.PutOptions(x.r.Header)
	if err != nil {
		return err
	}
	o.IfMatch, o.IfNoneMatch = etag.Named(x.r.Header.Get("If-Match")), etag.Named(x.r.Header.Get("If-None-Match"))
	var info minio.UploadInfo
	var kept []byte
	err = x.write(x.target.Key, p.Size(), func(token guard.Token) (err error) {
		if len(x.tokens) < 2 || p.Size() > smallBody {
			info, err = x.store.Put(upstream.Sending(x.ctx(), p), token, x.target.Key, p, p.Size(), o)
			return err
		}
		if kept == nil { // it may be needed under another token
			if kept, err = io.ReadAll(p); err != nil {
				return guard.WithOutcome(err, guard.NotApplied)
			}
		}
		info, err = x.store.Put(x.ctx(), token, x.target.Key, bytes.NewReader(kept), p.Size(), o)
		return err
	})
	if err != nil {
		return x.absent(err, o.IfMatch)
	}
	h := x.w.Header()
	h.Set("ETag", etag.Quoted(etag.Shown(info.ETag)))
	x.version(info.VersionID)
	for name, value := range p.Checksums() {
		h.Set(name, value)
	}
	if len(p.Checksums()) > 0 {
		h.Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
	return x.reply(http.StatusOK)
}

// checking is what there is to know, before its body is read, of the write that the
// request is.
func (x *exchange) checking() s3store.CheckOptions {
	h := x.r.Header
	return s3store.CheckOptions{
		IfMatch: etag.Named(h.Get("If-Match")), IfNoneMatch: etag.Named(h.Get("If-None-Match")),
		Part: x.target.Name == operation.UploadPart,
	}
}

func (x *exchange) deleteObject() error {
	o := s3store.DeleteOptions{IfMatch: etag.Named(x.r.Header.Get("If-Match"))}
	err := x.write(x.target.Key, 0, func(token guard.Token) error { return x.store.Delete(x.ctx(), token, x.target.Key, o) })
	if err != nil {
		return x.absent(err, o.IfMatch)
	}
	return x.reply(http.StatusNoContent)
}

// absent is the error of a write with If-Match, which S3 answers differently if
// there is no object. Whether there is one is only looked at now; nothing was
// written.
func (x *exchange) absent(err error, ifMatch string) error {
	if ifMatch == "" || !errors.Is(err, s3store.ErrPrecondition) {
		return err
	}
	token, no := x.readToken(x.target.Key)
	if no == nil {
		_, no = x.store.Stat(x.ctx(), token, x.target.Key, s3store.GetOptions{Unseen: true})
	}
	if errors.Is(no, s3store.ErrNotFound) {
		return guard.WithOutcome(no, guard.NotApplied)
	}
	return err
}

func (x *exchange) getObject() error {
	want, err := x.wanted()
	if err != nil {
		return err
	}
	var object *s3store.Object
	err = x.read(x.target.Key, func(token guard.Token) (err error) {
		object, err = x.store.Get(x.ctx(), token, x.target.Key, want.GetOptions)
		if want.Offset < 0 && errors.As(err, new(minio.ErrorResponse)) {
			// The last bytes of nothing are nothing, and no error.
			if whole, none := x.store.Get(x.ctx(), token, x.target.Key, want.whole()); none == nil && whole.Info.Size == 0 {
				object, err = whole, nil
			} else if none == nil {
				whole.Close()
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	defer object.Close()
	span := span{object.Offset, object.Length}
	if want.ranged && want.Offset >= 0 && span.length <= 0 && want.PartNumber == 0 {
		return errRange() // but nothing has a part, and nothing is in it
	}
	x.describe(&object.Info)
	if object.Parts > 0 {
		x.w.Header().Set("X-Amz-Mp-Parts-Count", strconv.Itoa(object.Parts))
	}
	return x.stream(want.status(x, span, object.Info.Size), object, span.length)
}

func (x *exchange) headObject() error {
	want, err := x.wanted()
	if err != nil {
		return err
	}
	if want.PartNumber > 0 { // only what is read tells where a part lies
		return x.getObject()
	}
	var info minio.ObjectInfo
	err = x.read(x.target.Key, func(token guard.Token) (err error) {
		info, err = x.store.Stat(x.ctx(), token, x.target.Key, want.GetOptions)
		return err
	})
	if err != nil {
		return err
	}
	span, err := want.of(info.Size)
	if err != nil {
		return err
	}
	x.describe(&info)
	return x.stream(want.status(x, span, info.Size), nil, span.length)
}

func (x *exchange) version(id string) {
	if id != "" {
		x.w.Header().Set("X-Amz-Version-Id", id)
	}
}
