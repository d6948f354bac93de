package operation

import (
	"net/http"
	"slices"
	"strings"
)

// Name is an operation's name in S3's API reference.
type Name string

// Access is what an operation does to a bucket or to what is in it.
type Access uint8

const (
	// Read changes nothing.
	Read Access = iota
	// Write changes something, or may.
	Write
)

// String is "read" or "write".
func (a Access) String() string {
	if a == Write {
		return "write"
	}
	return "read"
}

// Scope is what an operation is about.
type Scope uint8

const (
	// Service: all buckets.
	Service Scope = iota
	// Bucket: a bucket as a whole.
	Bucket
	// Object: one key.
	Object
)

// Operations that the proxy serves itself. Others of the table are only
// forwarded, where nothing is fenced.
const (
	ListBuckets             Name = "ListBuckets"
	HeadBucket              Name = "HeadBucket"
	CreateBucket            Name = "CreateBucket"
	GetBucketLocation       Name = "GetBucketLocation"
	GetBucketVersioning     Name = "GetBucketVersioning"
	ListObjects             Name = "ListObjects"
	ListObjectsV2           Name = "ListObjectsV2"
	ListMultipartUploads    Name = "ListMultipartUploads"
	DeleteObjects           Name = "DeleteObjects"
	PostObject              Name = "PostObject" // refused wherever it goes: its signature is in its body
	GetObject               Name = "GetObject"
	HeadObject              Name = "HeadObject"
	PutObject               Name = "PutObject"
	CopyObject              Name = "CopyObject"
	DeleteObject            Name = "DeleteObject"
	CreateMultipartUpload   Name = "CreateMultipartUpload"
	UploadPart              Name = "UploadPart"
	UploadPartCopy          Name = "UploadPartCopy"
	ListParts               Name = "ListParts"
	CompleteMultipartUpload Name = "CompleteMultipartUpload"
	AbortMultipartUpload    Name = "AbortMultipartUpload"
	GetObjectTagging        Name = "GetObjectTagging"
	PutObjectTagging        Name = "PutObjectTagging"
	DeleteObjectTagging     Name = "DeleteObjectTagging"
)

// Operation is a row of the table of all operations that S3 has.
type Operation struct {
	Name   Name
	Access Access
	Scope  Scope

	method string
	needs  []string // parameters of the query that must be there; name=value: with this value
	takes  []string // parameters that may be there
	copies bool     // x-amz-copy-source must be there, otherwise it must not
	apart  bool     // the store writes, then or later, where neither the path nor x-amz-copy-source says
	amz    []string // the x-amz- headers that it heeds; a final * is any rest
}

// everywhere are the x-amz- headers that every operation heeds.
func everywhere() []string {
	return []string{"date", "content-sha256", "security-token", "user-agent", "te", "expected-bucket-owner", "request-payer", "sdk-checksum-algorithm", "trailer", "decoded-content-length", "checksum-mode", "checksum-crc32", "checksum-crc32c", "checksum-crc64nvme", "checksum-sha1", "checksum-sha256", "checksum-sha512", "checksum-md5", "checksum-xxhash64", "checksum-xxhash3", "checksum-xxhash128", "meta-fence-token"}
}

// newTable returns all operations. The first row that fits a request is its own.
func newTable() []Operation {
	rows := slices.Concat(ofBuckets(), ofObjects(), ofProperties())
	for i := range rows {
		rows[i].amz = append(slices.Clip(rows[i].amz), everywhere()...)
	}
	return rows
}

func ofBuckets() []Operation {
	listParameters := []string{"prefix", "delimiter", "encoding-type", "max-keys"}
	return []Operation{
		{Name: ListBuckets, Scope: Service, method: http.MethodGet, takes: []string{"prefix", "max-buckets", "continuation-token", "bucket-region"}},
		{Name: HeadBucket, Scope: Bucket, method: http.MethodHead},
		{Name: CreateBucket, Access: Write, Scope: Bucket, method: http.MethodPut, amz: []string{"acl", "bucket-object-lock-enabled", "object-ownership", "grant-*"}},
		{Name: "DeleteBucket", Access: Write, Scope: Bucket, method: http.MethodDelete},
		{Name: GetBucketLocation, Scope: Bucket, method: http.MethodGet, needs: []string{"location"}},
		{Name: GetBucketVersioning, Scope: Bucket, method: http.MethodGet, needs: []string{"versioning"}},
		{Name: "PutBucketVersioning", Access: Write, Scope: Bucket, method: http.MethodPut, needs: []string{"versioning"}},
		{Name: "GetBucketPolicyStatus", Scope: Bucket, method: http.MethodGet, needs: []string{"policyStatus"}},
		{Name: ListObjectsV2, Scope: Bucket, method: http.MethodGet, needs: []string{"list-type=2"}, takes: slices.Concat(listParameters, []string{"continuation-token", "start-after", "fetch-owner"}), amz: []string{"optional-object-attributes"}},
		{Name: ListObjects, Scope: Bucket, method: http.MethodGet, takes: slices.Concat(listParameters, []string{"marker"}), amz: []string{"optional-object-attributes"}},
		{Name: "ListObjectVersions", Scope: Bucket, method: http.MethodGet, needs: []string{"versions"}, takes: slices.Concat(listParameters, []string{"key-marker", "version-id-marker"}), amz: []string{"optional-object-attributes"}},
		{Name: ListMultipartUploads, Scope: Bucket, method: http.MethodGet, needs: []string{"uploads"}, takes: []string{"prefix", "delimiter", "encoding-type", "max-uploads", "key-marker", "upload-id-marker"}},
		{Name: DeleteObjects, Access: Write, Scope: Bucket, method: http.MethodPost, needs: []string{"delete"}},
		{Name: PostObject, Access: Write, Scope: Bucket, method: http.MethodPost},
	}
}

func ofObjects() []Operation {
	readParameters := []string{
		"versionId", "partNumber", "response-cache-control", "response-content-disposition",
		"response-content-encoding", "response-content-language", "response-content-type", "response-expires",
	}
	objectHeaders := []string{"meta-*", "acl", "tagging", "storage-class", "server-side-encryption", "server-side-encryption-aws-kms-key-id", "server-side-encryption-context", "checksum-algorithm", "checksum-type"}
	copyConditions := []string{"copy-source", "copy-source-if-match", "copy-source-if-none-match", "copy-source-if-modified-since", "copy-source-if-unmodified-since"}
	copyConditions = append(copyConditions, "source-expected-bucket-owner")
	copyHeaders := slices.Concat(objectHeaders, copyConditions, []string{"metadata-directive", "tagging-directive"})
	return []Operation{
		{Name: GetObject, Scope: Object, method: http.MethodGet, takes: readParameters},
		{Name: HeadObject, Scope: Object, method: http.MethodHead, takes: readParameters},
		{Name: CopyObject, Access: Write, Scope: Object, method: http.MethodPut, copies: true, amz: copyHeaders},
		{Name: PutObject, Access: Write, Scope: Object, method: http.MethodPut, amz: objectHeaders},
		{Name: DeleteObject, Access: Write, Scope: Object, method: http.MethodDelete, takes: []string{"versionId"}},
		{Name: CreateMultipartUpload, Access: Write, Scope: Object, method: http.MethodPost, needs: []string{"uploads"}, amz: objectHeaders},
		{Name: UploadPartCopy, Access: Write, Scope: Object, method: http.MethodPut, needs: []string{"partNumber", "uploadId"}, copies: true, amz: slices.Concat(copyConditions, []string{"copy-source-range"})},
		{Name: UploadPart, Access: Write, Scope: Object, method: http.MethodPut, needs: []string{"partNumber", "uploadId"}, amz: []string{"checksum-algorithm", "checksum-type"}}, // minio-go says them
		{Name: ListParts, Scope: Object, method: http.MethodGet, needs: []string{"uploadId"}, takes: []string{"max-parts", "part-number-marker", "encoding-type"}},
		{Name: CompleteMultipartUpload, Access: Write, Scope: Object, method: http.MethodPost, needs: []string{"uploadId"}, amz: []string{"checksum-type", "mp-object-size"}},
		{Name: AbortMultipartUpload, Access: Write, Scope: Object, method: http.MethodDelete, needs: []string{"uploadId"}},
		{Name: GetObjectTagging, Scope: Object, method: http.MethodGet, needs: []string{"tagging"}, takes: []string{"versionId"}},
		{Name: PutObjectTagging, Access: Write, Scope: Object, method: http.MethodPut, needs: []string{"tagging"}, takes: []string{"versionId"}},
		{Name: DeleteObjectTagging, Access: Write, Scope: Object, method: http.MethodDelete, needs: []string{"tagging"}, takes: []string{"versionId"}},
		{Name: "GetObjectAttributes", Scope: Object, method: http.MethodGet, needs: []string{"attributes"}, takes: []string{"versionId"}},
		{Name: "GetObjectAcl", Scope: Object, method: http.MethodGet, needs: []string{"acl"}, takes: []string{"versionId"}},
		{Name: "PutObjectAcl", Access: Write, Scope: Object, method: http.MethodPut, needs: []string{"acl"}, takes: []string{"versionId"}},
		{Name: "GetObjectLegalHold", Scope: Object, method: http.MethodGet, needs: []string{"legal-hold"}, takes: []string{"versionId"}},
		{Name: "PutObjectLegalHold", Access: Write, Scope: Object, method: http.MethodPut, needs: []string{"legal-hold"}, takes: []string{"versionId"}},
		{Name: "GetObjectRetention", Scope: Object, method: http.MethodGet, needs: []string{"retention"}, takes: []string{"versionId"}},
		{Name: "PutObjectRetention", Access: Write, Scope: Object, method: http.MethodPut, needs: []string{"retention"}, takes: []string{"versionId"}},
		{Name: "GetObjectTorrent", Scope: Object, method: http.MethodGet, needs: []string{"torrent"}},
		{Name: "RestoreObject", Access: Write, Scope: Object, method: http.MethodPost, needs: []string{"restore"}, takes: []string{"versionId"}, apart: true},
		{Name: "SelectObjectContent", Scope: Object, method: http.MethodPost, needs: []string{"select", "select-type"}},
		{Name: "RenameObject", Access: Write, Scope: Object, method: http.MethodPut, needs: []string{"renameObject"}, apart: true},
	}
}

// ofProperties are the operations on what a bucket is set to, which all work
// alike.
func ofProperties() []Operation {
	var rows []Operation
	for _, p := range []string{"accelerate", "acl", "analytics", "cors", "encryption", "intelligent-tiering", "inventory", "lifecycle", "logging", "metrics", "notification", "ownershipControls", "policy", "publicAccessBlock", "replication", "requestPayment", "tagging", "website", "object-lock", "abac", "metadataConfiguration", "metadataTable"} {
		name := Name("Bucket" + strings.ToUpper(p[:1]) + p[1:])
		rows = append(rows,
			Operation{Name: "Get" + name, Scope: Bucket, method: http.MethodGet, needs: []string{p}, takes: []string{"id", "continuation-token"}},
			Operation{Name: "Put" + name, Access: Write, Scope: Bucket, method: http.MethodPut, needs: []string{p}, takes: []string{"id"}, apart: namesBucket(p)},
			Operation{Name: "Delete" + name, Access: Write, Scope: Bucket, method: http.MethodDelete, needs: []string{p}, takes: []string{"id"}},
		)
	}
	return rows
}

// namesBucket reports whether such a configuration names a bucket into which the
// store then writes by itself.
func namesBucket(property string) bool {
	return slices.Contains([]string{"analytics", "inventory", "logging", "replication"}, property)
}
