package gateway

import (
	"net/http"
	"path"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/address"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
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

func (x *exchange) fenced(bucket, key string) (bool, error) { return x.g.fenced(bucket, key) }

// fenced tells whether a key is fenced: always, but where keys that no resource
// covers are everybody's. A key that a store which keeps objects as files may
// take for another is nobody's then.
func (g *Gateway) fenced(bucket, key string) (bool, error) {
	switch {
	case g.config.Untokened != Allow, g.covered(bucket, key) != "":
		return true, nil
	case !g.touches(bucket):
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
	return from, true, address.Key(from.Key)
}

// mayUse refuses a bucket that the client may not use, and a name that is no
// bucket's.
func (x *exchange) mayUse(bucket string) error {
	if !x.client.may(bucket) {
		return refusal.New(refusal.AccessDenied, "Access Denied")
	}
	return address.Bucket(bucket)
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
