package gateway

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// wanted is what a read asks for.
type wanted struct {
	s3store.GetOptions

	ranged bool // by a range, or a part's number
}

// span is a part of a payload.
type span struct{ offset, length int64 }

// maxPart is the highest number of a part.
const maxPart = 10000

func (x *exchange) wanted() (*wanted, error) {
	h := x.r.Header
	w := &wanted{GetOptions: s3store.GetOptions{
		IfMatch: etag.Named(h.Get("If-Match")), IfNoneMatch: etag.Named(h.Get("If-None-Match")),
		IfModifiedSince: header.Date(h.Get("If-Modified-Since")), IfUnmodifiedSince: header.Date(h.Get("If-Unmodified-Since")),
	}}
	asked := h.Get("Range")
	if x.target.Query.Has("partNumber") {
		n, err := strconv.Atoi(x.target.Query.Get("partNumber"))
		switch {
		case err != nil || n < 1 || n > maxPart:
			return nil, refusal.New(refusal.InvalidArgument, "Part number must be an integer between 1 and %d, inclusive", maxPart)
		case asked != "":
			return nil, refusal.New(refusal.InvalidRequest, "Cannot specify both Range header and partNumber query parameter")
		}
		w.PartNumber, w.ranged = n, true
		return w, nil
	}
	if h.Get("If-Range") != "" {
		return w, nil // whoever gets the whole has missed nothing
	}
	at, ranged, empty := header.ParseRange(asked)
	if empty {
		return nil, errRange()
	}
	w.Offset, w.Length, w.ranged = at.Offset, at.Length, ranged
	return w, nil
}

func errRange() error {
	return refusal.New(refusal.InvalidRange, "The requested range is not satisfiable")
}

// whole is the same read without a range.
func (w *wanted) whole() s3store.GetOptions {
	o := w.GetOptions
	o.Offset, o.Length = 0, 0
	return o
}

// of tells which part of a payload of so many bytes is wanted.
func (w *wanted) of(size int64) (span, error) {
	s := span{w.Offset, size}
	if w.Offset < 0 {
		s.offset = max(size+w.Offset, 0)
	}
	s.length = max(size-s.offset, 0)
	if w.Length > 0 {
		s.length = min(s.length, w.Length)
	}
	if w.ranged && w.Offset >= 0 && s.length == 0 {
		return s, errRange()
	}
	return s, nil
}

// status is that of the answer, with the range that is in it told.
func (w *wanted) status(x *exchange, s span, size int64) int {
	if !w.ranged || s.length <= 0 {
		return http.StatusOK
	}
	x.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", s.offset, s.offset+s.length-1, size))
	return http.StatusPartialContent
}

// describe tells in the answer's header what is known of an object.
func (x *exchange) describe(info *minio.ObjectInfo) {
	h := x.w.Header()
	header.Describe(h, info)
	h.Set("ETag", etag.Quoted(etag.Shown(info.ETag)))
	header.Override(h, x.target.Query)
}
