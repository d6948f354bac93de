package header

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
)

// Describe tells in h what is known of an object: all but its ETag, which
// depends on how it is stored, and its length.
func Describe(h http.Header, info *minio.ObjectInfo) {
	for name, values := range info.Metadata {
		switch {
		case strings.HasPrefix(name, "X-Minio-"):
		case strings.HasPrefix(name, metaPrefix):
			// Some clients show names as they come, and S3's come in lower case.
			h[strings.ToLower(name)] = []string{encodeWord(strings.Join(values, ","))}
		case name == "Content-Encoding":
			if encoding := WithoutChunked(info.Metadata.Get(name)); encoding != "" {
				h.Set(name, encoding)
			}
		default:
			h[name] = values
		}
	}
	h.Set("Content-Type", info.ContentType)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", info.LastModified.UTC().Format(http.TimeFormat))
	if !info.Expires.IsZero() && h.Get("Expires") == "" {
		h.Set("Expires", info.Expires.UTC().Format(http.TimeFormat))
	}
	if info.UserTagCount > 0 {
		h.Set("X-Amz-Tagging-Count", strconv.Itoa(info.UserTagCount))
	}
	if info.VersionID != "" {
		h.Set("X-Amz-Version-Id", info.VersionID)
	}
}

// Override puts into h what a query says that the answer to a read is to say.
func Override(h http.Header, query url.Values) {
	if len(query) == 0 {
		return
	}
	for _, name := range []string{"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Expires"} {
		if parameter := "response-" + strings.ToLower(name); query.Has(parameter) {
			h.Set(name, query.Get(parameter))
		}
	}
}

// encodeWord is metadata as S3 sends it if it is more than ASCII.
//
// https://www.rfc-editor.org/rfc/rfc2047
func encodeWord(text string) string {
	for i := range len(text) {
		if text[i] >= 0x80 {
			// In upper case, as S3 has it.
			return strings.ReplaceAll(mime.BEncoding.Encode("UTF-8", text), "=?UTF-8?b?", "=?UTF-8?B?")
		}
	}
	return text
}
