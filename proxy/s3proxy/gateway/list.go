package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// listObjects answers the older listing, of version 1.
func (x *exchange) listObjects() error {
	q := x.target.Query
	r := s3xml.ListObjects{Name: x.target.Bucket, Prefix: q.Get("prefix"), Delimiter: q.Get("delimiter"), Marker: q.Get("marker")}
	return x.list(s3store.PageOptions{V1: true, Prefix: r.Prefix, Delimiter: r.Delimiter, StartAfter: r.Marker}, func(page s3store.Page, most int, encoding s3xml.Encoding) s3xml.Document {
		r.MaxKeys, r.Encoding, r.Truncated, r.Prefixes = most, encoding, page.Truncated, page.Prefixes
		// Without a delimiter S3 leaves it to the client to take the last key.
		if n := len(page.Objects); r.Delimiter != "" || n == 0 || page.Objects[n-1].Key != page.NextMarker {
			r.NextMarker = page.NextMarker
		}
		r.Objects = x.objects(page.Objects, true)
		return r
	})
}

// listObjectsV2 answers a listing of version 2.
func (x *exchange) listObjectsV2() error {
	q := x.target.Query
	r := s3xml.ListObjectsV2{
		Name: x.target.Bucket, Prefix: q.Get("prefix"), Delimiter: q.Get("delimiter"),
		StartAfter: q.Get("start-after"),
	}
	continuation := q.Get("continuation-token")
	if q.Has("continuation-token") { // an empty one begins at the front, as on S3
		r.Continuation = &continuation
	}
	return x.list(s3store.PageOptions{
		Prefix: r.Prefix, Delimiter: r.Delimiter, StartAfter: r.StartAfter, Continuation: continuation,
	}, func(page s3store.Page, most int, encoding s3xml.Encoding) s3xml.Document {
		r.MaxKeys, r.Encoding, r.Truncated, r.Next, r.Prefixes = most, encoding, page.Truncated, page.Continuation, page.Prefixes
		r.Objects = x.objects(page.Objects, q.Get("fetch-owner") == "true")
		return r
	})
}

// list answers with the page that was asked for. Behind very many keys that nobody gets to
// see, a page takes as long as it takes to read them.
func (x *exchange) list(o s3store.PageOptions, show func(page s3store.Page, most int, encoding s3xml.Encoding) s3xml.Document) error {
	most, err := x.limit("max-keys", maxPage, maxPage)
	if err != nil {
		return err
	}
	encoding, err := x.encoding()
	if err != nil {
		return err
	}
	if layout.Reserved(o.Prefix) {
		return x.xml(http.StatusOK, show(s3store.Page{}, most, encoding))
	}
	return x.awaited(x.g.patience, func() (s3xml.Document, error) {
		token, err := x.listToken(o.Prefix)
		if err != nil {
			return nil, err
		}
		o.Max = max(most, 1) // none: whether there is such a bucket
		page, err := x.store.ListPage(x.ctx(), token, o)
		if errors.Is(err, s3store.ErrContinuation) {
			err = header.Invalid("continuation-token", o.Continuation, "The continuation token provided is incorrect")
		}
		if most == 0 {
			page = s3store.Page{}
		}
		return show(page, most, encoding), err
	}, nil)
}

// listToken returns the token to list a prefix with: the one of the resource that the
// prefix belongs to, or else any of those whose keys may be there. All of these are
// claimed, and so is nothing shown under one of them that is stale.
func (x *exchange) listToken(prefix string) (guard.Token, error) {
	if len(x.tokens) == 0 { // then none is needed
		return guard.Token{}, nil
	}
	owner := x.g.covered(x.target.Bucket, prefix)
	token, shown := x.tokens[0], []guard.Token(nil)
	for _, t := range x.tokens {
		if !x.g.mayShow(x.target.Bucket, prefix, t.Resource) {
			continue
		}
		if len(shown) == 0 || t.Resource == owner {
			token = t
		}
		shown = append(shown, t)
	}
	return token, x.store.ClaimAll(x.ctx(), shown)
}

// mayShow reports whether keys that begin with prefix may belong to a resource.
func (g *Gateway) mayShow(bucket, prefix, resource string) bool {
	owner := g.covered(bucket, prefix)
	if owner == resource || owner == "" && g.config.Untokened != Allow { // whose token wrote them first
		return true
	}
	return slices.ContainsFunc(g.config.Resources, func(r Resource) bool {
		return r.Bucket == bucket && r.Resource == resource && strings.HasPrefix(r.Prefix, prefix)
	})
}

func (x *exchange) objects(infos []minio.ObjectInfo, owner bool) []s3xml.Object {
	objects := make([]s3xml.Object, len(infos))
	for i := range infos {
		o := &infos[i]
		objects[i] = s3xml.Object{
			Key: o.Key, LastModified: o.LastModified, ETag: o.ETag, Size: o.Size, StorageClass: o.StorageClass,
		}
		if fenced, _ := x.fenced(x.target.Bucket, o.Key); fenced {
			objects[i].ETag = etag.Shown(o.ETag)
		}
		if owner && o.Owner.ID != "" {
			is := x.ownerFor(o.Owner.ID, o.Owner.DisplayName)
			objects[i].Owner = &is
		}
	}
	return objects
}

// listUploads answers which uploads are under way.
func (x *exchange) listUploads() error {
	q := x.target.Query
	r := s3xml.ListUploads{
		Bucket: x.target.Bucket, Prefix: q.Get("prefix"), Delimiter: q.Get("delimiter"),
		KeyMarker: q.Get("key-marker"), UploadIDMarker: q.Get("upload-id-marker"),
	}
	var err error
	if r.MaxUploads, err = x.limit("max-uploads", maxPage, maxPage); err != nil {
		return err
	}
	if r.Encoding, err = x.encoding(); err != nil {
		return err
	}
	if layout.Reserved(r.Prefix) {
		return x.xml(http.StatusOK, r)
	}
	if r.KeyMarker == "" {
		r.UploadIDMarker = "" // S3 takes no notice of one without the other
	}
	token, err := x.listToken(r.Prefix)
	if err != nil {
		return err
	}
	page, err := x.store.ListUploads(x.ctx(), token, s3store.UploadsOptions{
		Prefix: r.Prefix, Delimiter: r.Delimiter, KeyMarker: r.KeyMarker, UploadIDMarker: r.UploadIDMarker, Max: max(r.MaxUploads, 1),
	})
	if err != nil {
		return err
	}
	if r.MaxUploads == 0 {
		return x.xml(http.StatusOK, r)
	}
	r.Truncated, r.NextKeyMarker, r.NextIDMarker = page.IsTruncated, page.NextKeyMarker, page.NextUploadIDMarker
	for _, u := range page.Uploads {
		r.Uploads = append(r.Uploads, s3xml.Upload{
			Key: u.Key, UploadID: u.UploadID, Initiated: u.Initiated, StorageClass: u.StorageClass,
		})
	}
	for _, p := range page.CommonPrefixes {
		r.Prefixes = append(r.Prefixes, p.Prefix)
	}
	return x.xml(http.StatusOK, r)
}
