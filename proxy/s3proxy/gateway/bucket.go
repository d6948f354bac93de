package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
)

// maxBuckets is the longest page of buckets, as of S3.
const maxBuckets = 10000

// listBuckets lists those that the client may use.
func (x *exchange) listBuckets() error {
	query, most := x.target.Query, maxBuckets
	if query.Has("max-buckets") {
		n, err := strconv.Atoi(query.Get("max-buckets"))
		if err != nil || n < 1 || n > maxBuckets {
			return refusal.New(refusal.InvalidArgument, "max-buckets must be an integer between 1 and %d, inclusive", maxBuckets)
		}
		most = n
	}
	all, err := x.g.core.ListBuckets(x.ctx())
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b minio.BucketInfo) int { return strings.Compare(a.Name, b.Name) })
	result := s3xml.ListBuckets{Owner: x.owner(), Prefix: query.Get("prefix")}
	for _, b := range all {
		if !x.client.may(b.Name) || !strings.HasPrefix(b.Name, query.Get("prefix")) || b.Name <= query.Get("continuation-token") {
			continue
		}
		if len(result.Buckets) == most {
			result.ContinuationToken = result.Buckets[most-1].Name
			break
		}
		result.Buckets = append(result.Buckets, s3xml.Bucket{Name: b.Name, Created: b.CreationDate, Region: x.g.config.Upstream.Region})
	}
	return x.xml(http.StatusOK, result)
}

// owner is whose all is, as far as clients are told.
func (x *exchange) owner() s3xml.Owner {
	return s3xml.Owner{ID: x.client.AccessKey, DisplayName: x.client.AccessKey}
}

// ownerFor is owner where the store tells of one of its own, as far as it tells.
func (x *exchange) ownerFor(id, name string) s3xml.Owner {
	o := x.owner()
	if id == "" {
		o.ID = ""
	}
	if name == "" {
		o.DisplayName = ""
	}
	return o
}

// ownedAsExpected refuses a request whose buckets are somebody else's than it says.
// What the store would say of its own owners does not matter: the header is not
// passed on.
func (x *exchange) ownedAsExpected() error {
	for _, name := range []string{"X-Amz-Expected-Bucket-Owner", "X-Amz-Source-Expected-Bucket-Owner"} {
		for _, owner := range x.r.Header[name] {
			if owner != x.owner().ID {
				return refusal.New(refusal.AccessDenied, "Access Denied: the owner of a bucket is, as far as the proxy tells, the access key that asks")
			}
		}
		delete(x.r.Header, name)
	}
	return nil
}

// exists looks whether the bucket is there.
func (x *exchange) exists() error {
	there, err := x.bucketExists()
	if err == nil && !there {
		return refusal.New(refusal.NoSuchBucket, "The specified bucket does not exist")
	}
	return err
}

// bucketExists is BucketExists, which is a HEAD. A store that refuses one has no room to
// say why, and may answer by 404 for another reason: what it says to a GET counts.
func (x *exchange) bucketExists() (bool, error) {
	there, err := x.g.core.BucketExists(x.ctx(), x.target.Bucket)
	if answered := (minio.ErrorResponse{}); there || err != nil && !errors.As(err, &answered) {
		return there, err
	}
	_, err = x.g.core.ListObjectsV2(x.target.Bucket, "", "", "", "", 1)
	if minio.ToErrorResponse(err).Code == minio.NoSuchBucket {
		return false, nil
	}
	return err == nil, err
}

func (x *exchange) headBucket() error {
	if err := x.exists(); err != nil {
		return err
	}
	x.w.Header().Set("X-Amz-Bucket-Region", x.g.config.Upstream.Region)
	return x.reply(http.StatusOK)
}

func (x *exchange) getBucketLocation() error {
	if err := x.exists(); err != nil {
		return err
	}
	return x.xml(http.StatusOK, s3xml.Location{Region: x.g.config.Upstream.Region})
}

func (x *exchange) getBucketVersioning() error {
	v, err := x.g.core.GetBucketVersioning(x.ctx(), x.target.Bucket)
	if err != nil {
		return err
	}
	return x.xml(http.StatusOK, s3xml.Versioning{Status: v.Status})
}

// createBucket makes none, but says of one that is there what S3 says. Some
// clients ask before each upload.
func (x *exchange) createBucket() error {
	there, err := x.bucketExists()
	switch {
	case err != nil:
		return guard.WithOutcome(err, guard.NotApplied)
	case there:
		return refusal.New(refusal.BucketAlreadyOwnedByYou, "Your previous request to create the named bucket succeeded and you already own it.")
	}
	return refusal.New(refusal.NotImplemented, "Buckets are not made through the proxy.")
}
