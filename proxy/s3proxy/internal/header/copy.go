package header

import (
	"math"
	"net/http"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// Invalid is the answer to a header or parameter that cannot have this value.
func Invalid(name, value, format string, args ...any) error {
	e := refusal.New(refusal.InvalidArgument, format, args...)
	e.Extra = map[string]string{"ArgumentName": name, "ArgumentValue": value}
	return e
}

// CopyConditions are those of the source of a copy, x-amz-copy-source-if-*, with
// ETags as the client has them.
func CopyConditions(h http.Header) (s3store.GetOptions, error) {
	const prefix = "X-Amz-Copy-Source-"
	o := s3store.GetOptions{
		Unseen:  true, // no client is shown the source
		IfMatch: h.Get(prefix + "If-Match"), IfNoneMatch: h.Get(prefix + "If-None-Match"),
		IfModifiedSince: Date(h.Get(prefix + "If-Modified-Since")), IfUnmodifiedSince: Date(h.Get(prefix + "If-Unmodified-Since")),
	}
	for name, none := range map[string]bool{
		prefix + "If-Modified-Since": o.IfModifiedSince.IsZero(), prefix + "If-Unmodified-Since": o.IfUnmodifiedSince.IsZero(),
	} {
		if text := h.Get(name); text != "" && none { // to copy without the condition would be to pass it over
			return o, Invalid(strings.ToLower(name), text, "It is not a date of HTTP.")
		}
	}
	return o, nil
}

// CopyRange reads x-amz-copy-source-range, bytes=first-last; all if it is not
// there.
func CopyRange(h http.Header) (Range, error) {
	const name = "X-Amz-Copy-Source-Range"
	text := h.Get(name)
	if text == "" {
		return Range{}, nil
	}
	spec, ok := strings.CutPrefix(text, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	begin, isFirst := digits(first)
	end, isLast := digits(last)
	if !ok || !dash || !isFirst || !isLast || end < begin || end == math.MaxInt64 {
		return Range{}, Invalid(strings.ToLower(name), text, "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
	}
	return Range{begin, end - begin + 1}, nil
}

// Replaces reads x-amz-metadata-directive or x-amz-tagging-directive: whether
// what the request says is to count, or what the source has.
func Replaces(h http.Header, what string) (bool, error) {
	name := "x-amz-" + what + "-directive"
	switch text := h.Get(name); text {
	case "", "COPY":
		return false, nil
	case "REPLACE":
		return true, nil
	default:
		return false, Invalid(name, text, "Unknown %s directive.", what)
	}
}
