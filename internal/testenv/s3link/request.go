package s3link

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What a request asks for, by the names of S3's reference. A request that is
// none of these has the Op "Other".
const (
	AbortMultipartUpload    = "AbortMultipartUpload"
	CompleteMultipartUpload = "CompleteMultipartUpload"
	CopyObject              = "CopyObject"
	CreateBucket            = "CreateBucket"
	CreateMultipartUpload   = "CreateMultipartUpload"
	DeleteObject            = "DeleteObject"
	DeleteObjects           = "DeleteObjects"
	GetBucketLocation       = "GetBucketLocation"
	GetObject               = "GetObject"
	HeadBucket              = "HeadBucket"
	HeadObject              = "HeadObject"
	ListBuckets             = "ListBuckets"
	ListMultipartUploads    = "ListMultipartUploads"
	ListObjects             = "ListObjects"
	ListObjectVersions      = "ListObjectVersions"
	ListParts               = "ListParts"
	Other                   = "Other"
	PutObject               = "PutObject"
	UploadPart              = "UploadPart"
	UploadPartCopy          = "UploadPartCopy"
)

// Request is what a client asked for.
type Request struct {
	// Op is one of the names above.
	Op string
	// Bucket and Key are what it is about, decoded; "" where there is none.
	Bucket, Key string
	// Query and Header are as the client sent them.
	Query  url.Values
	Header http.Header
}

// Op matches the requests of any of the names; those of all without one.
func Op(names ...string) func(Request) bool {
	return func(r Request) bool { return len(names) == 0 || slices.Contains(names, r.Op) }
}

// read understands path-style requests.
func read(r *http.Request) Request {
	got := Request{Query: r.URL.Query(), Header: r.Header.Clone()}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	var err error
	if got.Bucket, err = url.PathUnescape(bucket); err != nil {
		got.Bucket = bucket
	}
	if got.Key, err = url.PathUnescape(key); err != nil {
		got.Key = key
	}
	switch {
	case got.Bucket == "":
		got.Op = ops["service "+r.Method]
	case got.Key == "":
		got.Op = ops["bucket "+r.Method+got.about("location", "uploads", "versions", "delete")]
	default:
		got.Op = ops["object "+r.Method+got.about("uploads", "uploadId")+got.copies()]
	}
	if got.Op == "" || got.about(others...) != "" {
		got.Op = Other
	}
	return got
}

// others are sub-resources that turn a request into another one.
var others = []string{"acl", "tagging", "versioning", "policy", "lifecycle", "retention", "legal-hold", "cors", "attributes", "object-lock"}

var ops = map[string]string{
	"service GET":                ListBuckets,
	"bucket GET":                 ListObjects,
	"bucket GET location":        GetBucketLocation,
	"bucket GET uploads":         ListMultipartUploads,
	"bucket GET versions":        ListObjectVersions,
	"bucket HEAD":                HeadBucket,
	"bucket PUT":                 CreateBucket,
	"bucket POST delete":         DeleteObjects,
	"object GET":                 GetObject,
	"object GET uploadId":        ListParts,
	"object HEAD":                HeadObject,
	"object PUT":                 PutObject,
	"object PUT copies":          CopyObject,
	"object PUT uploadId":        UploadPart,
	"object PUT uploadId copies": UploadPartCopy,
	"object POST uploads":        CreateMultipartUpload,
	"object POST uploadId":       CompleteMultipartUpload,
	"object DELETE":              DeleteObject,
	"object DELETE uploadId":     AbortMultipartUpload,
}

// about names the first of the sub-resources that the request has.
func (r Request) about(names ...string) string {
	for _, name := range names {
		if r.Query.Has(name) {
			return " " + name
		}
	}
	return ""
}

func (r Request) copies() string {
	if r.Header.Get("X-Amz-Copy-Source") != "" {
		return " copies"
	}
	return ""
}
