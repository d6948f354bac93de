package gateway

import (
	"net/http"
	"path"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// area tells whether anything that the request is about is fenced, or it is to
// be forwarded as it is.
func (x *exchange) area() (fenced bool, err error) {
	t := &x.target
	switch {
	case x.g.config.Untokened != Allow, t.Scope == operation.Service:
		return true, nil
	case t.Scope == operation.Bucket:
		return x.g.touches(t.Bucket), nil
	}
	fenced, err = x.fenced(t.Bucket, t.Key)
	if fenced || err != nil {
		return fenced, err
	}
	from, copies, err := x.source()
	if !copies || err != nil {
		return false, err
	}
	fenced, err = x.fenced(from.Bucket, from.Key)
	if fenced {
		return false, refusal.Fence(guard.ErrUnsupported, "the source is fenced and the destination is not: copy it by a read and a write")
	}
	return false, err
}

// fenced tells whether a key is fenced: always, but where keys that no resource
// covers are everybody's. A key that a store which keeps objects as files may
// take for another is nobody's then.
func (x *exchange) fenced(bucket, key string) (bool, error) {
	switch {
	case x.g.config.Untokened != Allow, x.g.covered(bucket, key) != "":
		return true, nil
	case !x.g.touches(bucket):
		return false, nil
	}
	if clean := strings.TrimPrefix(path.Clean("/"+key), "/"); clean != strings.TrimSuffix(key, "/") {
		return false, refusal.Fence(guard.ErrUnsupported, "some stores take this key for %q, and keys of the bucket are fenced", clean)
	}
	for _, folder := range []string{".sgwtmp/", ".uploads/"} { // of versitygw and SeaweedFS
		if strings.HasPrefix(key, folder) {
			return false, refusal.Fence(guard.ErrUnsupported, "some stores keep the parts of uploads in %q, and keys of the bucket are fenced", folder)
		}
	}
	return false, nil
}

// source returns where a copy is from, if the request is one: a place that the
// client may read.
func (x *exchange) source() (from operation.Source, copies bool, err error) {
	value := x.r.Header.Get("X-Amz-Copy-Source")
	if value == "" {
		return from, false, nil
	}
	if from, err = operation.ParseSource(value); err != nil {
		return from, true, refusal.New(refusal.InvalidArgument, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
	}
	if err := x.mayUse(from.Bucket); err != nil {
		return from, true, err
	}
	return from, true, checkKey(from.Key)
}

// mayUse refuses a bucket that the client may not use, and a name that is no
// bucket's: "app/orders" in the path to the store would be keys of bucket app.
func (x *exchange) mayUse(bucket string) error {
	if !x.client.may(bucket) {
		return refusal.New(refusal.AccessDenied, "Access Denied")
	}
	return checkBucket(bucket)
}

func checkBucket(name string) error {
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

// checkKey refuses a key that is the fence's own, that leads out of its bucket,
// or that is none.
func checkKey(key string) error {
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

// checkID refuses an id of the store's that is a path: one that keeps uploads and
// versions as files might find any other of its files there, or remove it.
func checkID(name, id string) error {
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

// signing are the parameters of a presigned query.
var signing = [...]string{ //nolint:gochecknoglobals // a constant
	"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Security-Token",
}

// promote makes headers of the parameters that SDKs put into a presigned query
// in their place. The signature covers them. Checksums are passed over, as S3
// does: SDKs presign the one of an empty body.
func (x *exchange) promote() error {
	for name, values := range x.target.Query {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, "x-amz-") || isSigning(name) || strings.HasPrefix(lower, "x-amz-checksum-") || lower == "x-amz-content-sha256" {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		if _, there := x.r.Header[name]; there {
			return refusal.New(refusal.InvalidArgument, "%s is given as a header and in the query.", lower)
		}
		if name == "X-Amz-Copy-Source" { // it would be another operation
			return x.unknown()
		}
		x.r.Header[name] = values
		x.promoted = append(x.promoted, lower)
	}
	return nil
}

func isSigning(parameter string) bool {
	for _, name := range signing {
		if name == parameter {
			return true
		}
	}
	return false
}
