package gateway

import "strings"

// Clients take an ETag without a dash for the MD5 of what they sent or got; and
// the store's is that of the framed object. So it is shown with this at its end,
// as the ETag of an upload in parts, with which nobody compares anything.
const notMD5 = "-0"

// shownETag is the ETag of a framed object as clients see it, without quotes.
func shownETag(etag string) string {
	if etag == "" || strings.Contains(etag, "-") {
		return etag
	}
	return etag + notMD5
}

// namedETag is the store's ETag for one that a client names, with or without
// quotes; "*" stays what it is.
func namedETag(etag string) string {
	return strings.TrimSuffix(strings.Trim(strings.TrimSpace(etag), `"`), notMD5)
}

// quoted is an ETag as it stands in a header.
func quoted(etag string) string { return `"` + etag + `"` }
