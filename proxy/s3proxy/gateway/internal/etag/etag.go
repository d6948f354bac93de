// Package etag translates between the ETags of the store and those that clients
// see.
package etag

import "strings"

// Clients take an ETag without a dash for the MD5 of what they sent or got; and
// the store's is that of the framed object. So it is shown with this at its end,
// as the ETag of an upload in parts, with which nobody compares anything.
const notMD5 = "-0"

// Shown is the ETag of a framed object as clients see it, without quotes.
func Shown(etag string) string {
	if etag == "" || strings.Contains(etag, "-") {
		return etag
	}
	return etag + notMD5
}

// Named is the store's ETag for one that a client names, with or without
// quotes; "*" stays what it is.
func Named(etag string) string {
	named := Unquoted(etag)
	if stored := strings.TrimSuffix(named, notMD5); stored != "" && stored != "*" {
		return stored
	}
	return named
}

// Unquoted is an ETag that a client names without its quotes. If there is nothing
// in them, or what means any without them, it is one that no object has: a condition
// that is false, not none.
func Unquoted(etag string) string {
	quoted := strings.TrimSpace(etag)
	bare := strings.Trim(quoted, `"`)
	if bare == "" && etag != "" || bare == "*" && bare != quoted {
		return "-"
	}
	return bare
}

// Quoted is an ETag as it stands in a header.
func Quoted(etag string) string { return `"` + etag + `"` }
