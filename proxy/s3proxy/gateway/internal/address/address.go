// Package address refuses names of buckets, keys and ids that do not lead where they
// seem to.
package address

import (
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Bucket refuses a name that is no bucket's: "app/orders" in the path to the store would
// be keys of bucket app.
func Bucket(name string) error {
	if plainBucket(name) {
		return nil
	}
	if err := s3utils.CheckValidBucketName(name); err != nil {
		e := refusal.New(refusal.InvalidBucketName, "The specified bucket is not valid.")
		e.Cause = err
		return e
	}
	return nil
}

// plainBucket reports whether a name is one as most buckets have it, which is known
// without an expression that is searched for in it.
func plainBucket(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0 || i == len(name)-1) {
			return false
		}
	}
	return len(name) >= 3 && len(name) <= 63
}

// Key refuses one that is the fence's own, that leads out of its bucket, or that is
// none.
func Key(key string) error {
	switch {
	case layout.Reserved(key):
		return refusal.New(refusal.AccessDenied, "Access Denied")
	case len(key) > maxKey:
		return refusal.New(refusal.KeyTooLong, "Your key is too long")
	case strings.ContainsRune(key, 0) || climbs(key):
		return refusal.New(refusal.InvalidURI, "Couldn't parse the specified URI.")
	}
	return nil
}

// ID refuses an id of the store's, which the parameter name has, that is a path: a store
// that keeps uploads and versions as files might find any other of its files there, or
// remove it.
func ID(name, id string) error {
	for part := range strings.FieldsFuncSeq(id, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == ".." {
			return header.Invalid(name, id, "Invalid %s specified", name)
		}
	}
	return nil
}

// maxKey is the longest key in bytes, as of S3.
const maxKey = 1024

// climbs reports whether a key read as a path leads above its bucket.
func climbs(key string) bool {
	depth := 0
	for part := range strings.SplitSeq(key, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}
