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
	named := unquoted(etag)
	if stored := strings.TrimSuffix(named, notMD5); stored != "" {
		return stored
	}
	return named
}

// unquoted is an ETag that a client names without its quotes. If there is nothing
// in them it is one that no object has: a condition that is false, not none.
func unquoted(etag string) string {
	if bare := strings.Trim(strings.TrimSpace(etag), `"`); bare != "" || etag == "" {
		return bare
	}
	return "-"
}

// quoted is an ETag as it stands in a header.
func quoted(etag string) string { return `"` + etag + `"` }
