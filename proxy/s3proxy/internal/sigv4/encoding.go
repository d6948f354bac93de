package sigv4

import (
	"net/http"
	"strings"
)

// ContentEncoding returns the Content-Encoding of the payload, which is that of
// the body without aws-chunked, or "" if there is no other. One that has no
// aws-chunked in it stays as it is.
func ContentEncoding(h http.Header) string {
	var kept []string
	removed := false
	for _, value := range h["Content-Encoding"] {
		for token := range strings.SplitSeq(value, ",") {
			token = strings.Trim(token, " \t")
			if strings.EqualFold(token, "aws-chunked") {
				removed = true
			} else if token != "" {
				kept = append(kept, token)
			}
		}
	}
	if !removed {
		return strings.Join(h["Content-Encoding"], ",")
	}
	return strings.Join(kept, ",")
}
