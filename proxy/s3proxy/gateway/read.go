package gateway

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

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
		IfMatch: namedETag(h.Get("If-Match")), IfNoneMatch: namedETag(h.Get("If-None-Match")),
		IfModifiedSince: date(h.Get("If-Modified-Since")), IfUnmodifiedSince: date(h.Get("If-Unmodified-Since")),
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
	var none bool
	if w.Offset, w.Length, w.ranged, none = parseRange(asked); none {
		return nil, errRange()
	}
	return w, nil
}

func errRange() error {
	return refusal.New(refusal.InvalidRange, "The requested range is not satisfiable")
}

// date reads a date of HTTP; one that cannot be read is none, as RFC 9110 has it.
func date(text string) time.Time {
	t, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// parseRange reads a Range header as S3 does: what is no single range is passed
// over. A negative offset is that of the last bytes; a length of 0 is to the end.
// None: nothing can be in the range.
func parseRange(text string) (offset, length int64, ok, none bool) {
	spec, ok := strings.CutPrefix(text, "bytes=")
	first, last, dash := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok || !dash || strings.Contains(spec, ",") {
		return 0, 0, false, false
	}
	if first == "" {
		n, valid := digits(last)
		return -n, 0, valid, valid && n == 0
	}
	offset, ok = digits(first)
	if !ok || last == "" {
		return offset, 0, ok, false
	}
	end, ok := digits(last)
	if !ok || end < offset {
		return 0, 0, false, false
	}
	if end-offset == 1<<63-1 {
		return offset, 0, true, false
	}
	return offset, end - offset + 1, true, false
}

// digits reads a number; one that is too large is the largest.
func digits(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return n, true
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
	if w.ranged && s.length == 0 {
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

// describe tells in the header what is known of an object.
func (x *exchange) describe(info *minio.ObjectInfo) {
	h := x.w.Header()
	for name, values := range info.Metadata {
		switch {
		case strings.HasPrefix(name, "X-Minio-"):
		case strings.HasPrefix(name, "X-Amz-Meta-"):
			// Some clients show names as they come, and S3's come in lower case.
			h[strings.ToLower(name)] = []string{encodeWord(strings.Join(values, ","))}
		case name == "X-Amz-Storage-Class" && info.Metadata.Get(name) == "STANDARD":
		case name == "Content-Encoding":
			if encoding := withoutChunked(info.Metadata.Get(name)); encoding != "" {
				h.Set(name, encoding)
			}
		default:
			h[name] = values
		}
	}
	h.Set("Content-Type", info.ContentType)
	h.Set("ETag", quoted(shownETag(info.ETag)))
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", info.LastModified.UTC().Format(http.TimeFormat))
	if !info.Expires.IsZero() {
		h.Set("Expires", info.Expires.UTC().Format(http.TimeFormat))
	}
	if info.UserTagCount > 0 {
		h.Set("X-Amz-Tagging-Count", strconv.Itoa(info.UserTagCount))
	}
	x.version(info.VersionID)
	for _, name := range []string{"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Expires"} {
		if parameter := "response-" + strings.ToLower(name); x.target.Query.Has(parameter) {
			h.Set(name, x.target.Query.Get(parameter))
		}
	}
}

// encodeWord is metadata as S3 sends it if it is more than ASCII.
//
// https://www.rfc-editor.org/rfc/rfc2047
func encodeWord(text string) string {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return mime.BEncoding.Encode("UTF-8", text)
		}
	}
	return text
}
