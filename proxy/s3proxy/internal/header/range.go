package header

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Range is a Range header: a single range of bytes.
type Range struct {
	// Offset is where it begins; if it is negative, it is the last so many bytes.
	Offset int64
	// Length is how many bytes it has at most, 0 for all that follow.
	Length int64
}

// ParseRange reads a Range header as S3 does: one that is no single range of bytes
// is passed over, and there is none. Empty: it is one, and nothing can be in it.
func ParseRange(text string) (r Range, there, empty bool) {
	spec, ok := strings.CutPrefix(text, "bytes=")
	first, last, dash := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok || !dash || strings.Contains(spec, ",") {
		return Range{}, false, false
	}
	if first == "" {
		n, ok := digits(last)
		return Range{Offset: -n}, ok, ok && n == 0
	}
	begin, ok := digits(first)
	if !ok {
		return Range{}, false, false
	}
	if last == "" {
		return Range{Offset: begin}, true, false
	}
	end, ok := digits(last)
	switch {
	case !ok || end < begin:
		return Range{}, false, false
	case end-begin == math.MaxInt64:
		return Range{Offset: begin}, true, false
	}
	return Range{begin, end - begin + 1}, true, false
}

// digits reads a number; one that is too large is the largest.
func digits(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// Date reads a date of HTTP; one that cannot be read is none, as RFC 9110 has it.
func Date(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return t
}
