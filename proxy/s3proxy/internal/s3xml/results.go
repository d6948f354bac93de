package s3xml

import (
	"maps"
	"slices"
	"time"
)

// Error is the answer to a request that could not be served.
type Error struct {
	Code, Message string
	// Resource is the path that was asked for, RequestID names the request.
	Resource, RequestID string
	// Extra are elements that only this code has, by name.
	Extra map[string]string
}

func (e Error) appendTo(b builder) builder {
	b = b.open("Error").text("Code", e.Code).text("Message", e.Message)
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		b = b.text(name, e.Extra[name])
	}
	return b.text("Resource", e.Resource).text("RequestId", e.RequestID).text("HostId", "").close("Error")
}

// CopyObject is the result of a copy.
type CopyObject struct {
	LastModified time.Time
	ETag         string
}

func (c CopyObject) appendTo(b builder) builder {
	return b.root("CopyObjectResult").time("LastModified", c.LastModified).etag(c.ETag).close("CopyObjectResult")
}

// CopyPart is the result of a part that was copied.
type CopyPart struct {
	LastModified time.Time
	ETag         string
}

func (c CopyPart) appendTo(b builder) builder {
	return b.root("CopyPartResult").time("LastModified", c.LastModified).etag(c.ETag).close("CopyPartResult")
}

// CreateUpload is the result of an upload that was begun.
type CreateUpload struct{ Bucket, Key, UploadID string }

func (c CreateUpload) appendTo(b builder) builder {
	const name = "InitiateMultipartUploadResult"
	return b.root(name).text("Bucket", c.Bucket).text("Key", c.Key).text("UploadId", c.UploadID).close(name)
}

// CompleteUpload is the result of an upload that became an object.
type CompleteUpload struct{ Location, Bucket, Key, ETag string }

func (c CompleteUpload) appendTo(b builder) builder {
	const name = "CompleteMultipartUploadResult"
	return b.root(name).text("Location", c.Location).text("Bucket", c.Bucket).text("Key", c.Key).etag(c.ETag).close(name)
}

// DeleteObjects is the result of a Delete.
type DeleteObjects struct {
	// Deleted are the keys that were deleted; none if the request was quiet.
	Deleted []string
	Errors  []DeleteError
}

// DeleteError is why one object was not deleted.
type DeleteError struct{ Key, VersionID, Code, Message string }

func (d DeleteObjects) appendTo(b builder) builder {
	b = b.root("DeleteResult")
	for _, key := range d.Deleted {
		b = b.open("Deleted").text("Key", key).close("Deleted")
	}
	for i := range d.Errors {
		e := &d.Errors[i]
		b = b.open("Error").text("Key", e.Key).some("VersionId", e.VersionID).
			text("Code", e.Code).text("Message", e.Message).close("Error")
	}
	return b.close("DeleteResult")
}

// Tagging are the tags of an object, in this order.
type Tagging struct{ Tags []Tag }

func (t Tagging) appendTo(b builder) builder {
	b = b.root("Tagging").open("TagSet")
	for _, tag := range t.Tags {
		b = b.open("Tag").text("Key", tag.Key).text("Value", tag.Value).close("Tag")
	}
	return b.close("TagSet").close("Tagging")
}

// Owner is whose a bucket, an object or an upload is.
type Owner struct{ ID, DisplayName string }

func (b builder) owner(name string, o Owner) builder {
	return b.open(name).text("ID", o.ID).some("DisplayName", o.DisplayName).close(name)
}

// ListBuckets are the buckets of a client.
type ListBuckets struct {
	Owner   Owner
	Buckets []Bucket
	// Prefix is what the names begin with, if that was asked for.
	Prefix string
	// ContinuationToken is for the next page, if there is one.
	ContinuationToken string
}

// Bucket is one of them.
type Bucket struct {
	Name    string
	Created time.Time
	Region  string // told unless it is ""
}

func (l ListBuckets) appendTo(b builder) builder {
	b = b.root("ListAllMyBucketsResult").owner("Owner", l.Owner).open("Buckets")
	for _, bucket := range l.Buckets {
		b = b.open("Bucket").text("Name", bucket.Name).time("CreationDate", bucket.Created).some("BucketRegion", bucket.Region).close("Bucket")
	}
	return b.close("Buckets").some("Prefix", l.Prefix).some("ContinuationToken", l.ContinuationToken).close("ListAllMyBucketsResult")
}

// Location is where a bucket is: a region, of which us-east-1 is written as
// none, as S3 does.
type Location struct{ Region string }

func (l Location) appendTo(b builder) builder {
	if l.Region == "us-east-1" {
		l.Region = ""
	}
	return b.root("LocationConstraint").escape(l.Region).close("LocationConstraint")
}

// Versioning is whether a bucket keeps versions: Enabled, Suspended, or "" if it
// never did.
type Versioning struct{ Status string }

func (v Versioning) appendTo(b builder) builder {
	return b.root("VersioningConfiguration").some("Status", v.Status).close("VersioningConfiguration")
}
