package s3xml

import "time"

// Object is an object in a listing.
type Object struct {
	Key          string
	LastModified time.Time
	ETag         string
	Size         int64
	Owner        *Owner // nil: not told
	// StorageClass defaults to STANDARD.
	StorageClass string
}

// ListObjects is a page of the older listing, of version 1.
type ListObjects struct {
	Name, Prefix, Marker string
	// NextMarker is where the next page begins; "" is not told: a client then
	// goes on behind the last key.
	NextMarker string
	MaxKeys    int
	Delimiter  string
	Encoding   Encoding
	Truncated  bool
	Objects    []Object
	Prefixes   []string
}

func (l ListObjects) appendTo(b builder) builder {
	e := l.Encoding
	b = b.root("ListBucketResult").text("Name", l.Name).text("Prefix", e.apply(l.Prefix)).text("Marker", e.apply(l.Marker)).
		some("NextMarker", e.apply(l.NextMarker)).number("MaxKeys", int64(l.MaxKeys))
	return b.page(e, l.Delimiter, l.Truncated, l.Objects, l.Prefixes).close("ListBucketResult")
}

// ListObjectsV2 is a page of a listing of version 2.
type ListObjectsV2 struct {
	Name, Prefix, StartAfter string
	// Continuation is the token that the page was asked for with, perhaps an
	// empty one; nil for none.
	Continuation *string
	// Next is that of the page behind it; "" for none.
	Next      string
	MaxKeys   int
	Delimiter string
	Encoding  Encoding
	Truncated bool
	Objects   []Object
	Prefixes  []string
}

func (l ListObjectsV2) appendTo(b builder) builder {
	e := l.Encoding
	b = b.root("ListBucketResult").text("Name", l.Name).text("Prefix", e.apply(l.Prefix)).some("StartAfter", e.apply(l.StartAfter))
	if l.Continuation != nil {
		b = b.text("ContinuationToken", *l.Continuation)
	}
	b = b.some("NextContinuationToken", l.Next).
		number("KeyCount", int64(len(l.Objects)+len(l.Prefixes))).number("MaxKeys", int64(l.MaxKeys))
	return b.page(e, l.Delimiter, l.Truncated, l.Objects, l.Prefixes).close("ListBucketResult")
}

// page is what both versions end with.
func (b builder) page(e Encoding, delimiter string, truncated bool, objects []Object, prefixes []string) builder {
	b = b.some("Delimiter", e.apply(delimiter)).some("EncodingType", string(e)).flag("IsTruncated", truncated)
	for i := range objects {
		o := &objects[i]
		b = b.open("Contents").text("Key", e.apply(o.Key)).time("LastModified", o.LastModified).etag(o.ETag).number("Size", o.Size)
		if o.Owner != nil {
			b = b.owner("Owner", *o.Owner)
		}
		b = b.class(o.StorageClass).close("Contents")
	}
	return b.prefixes(e, prefixes)
}

func (b builder) prefixes(e Encoding, prefixes []string) builder {
	for _, prefix := range prefixes {
		b = b.open("CommonPrefixes").text("Prefix", e.apply(prefix)).close("CommonPrefixes")
	}
	return b
}

func (b builder) class(name string) builder {
	if name == "" {
		name = "STANDARD"
	}
	return b.text("StorageClass", name)
}

// UploadedPart is a part in a listing.
type UploadedPart struct {
	Number       int
	LastModified time.Time
	ETag         string
	Size         int64
}

// ListParts is a page of the parts of an upload.
type ListParts struct {
	Bucket, Key, UploadID string
	Initiator, Owner      Owner
	// StorageClass defaults to STANDARD.
	StorageClass string
	// Marker is the number that the page begins behind, and Next that of the
	// next page.
	Marker, Next, MaxParts int
	Truncated              bool
	Parts                  []UploadedPart
}

func (l ListParts) appendTo(b builder) builder {
	b = b.root("ListPartsResult").text("Bucket", l.Bucket).text("Key", l.Key).text("UploadId", l.UploadID).
		owner("Initiator", l.Initiator).owner("Owner", l.Owner).class(l.StorageClass).
		number("PartNumberMarker", int64(l.Marker)).number("NextPartNumberMarker", int64(l.Next)).
		number("MaxParts", int64(l.MaxParts)).flag("IsTruncated", l.Truncated)
	for _, p := range l.Parts {
		b = b.open("Part").number("PartNumber", int64(p.Number)).time("LastModified", p.LastModified).
			etag(p.ETag).number("Size", p.Size).close("Part")
	}
	return b.close("ListPartsResult")
}

// Upload is an upload in a listing.
type Upload struct {
	Key, UploadID    string
	Initiator, Owner Owner
	// StorageClass defaults to STANDARD.
	StorageClass string
	Initiated    time.Time
}

// ListUploads is a page of the uploads of a bucket.
type ListUploads struct {
	Bucket                      string
	KeyMarker, UploadIDMarker   string
	NextKeyMarker, NextIDMarker string
	Prefix, Delimiter           string
	Encoding                    Encoding
	MaxUploads                  int
	Truncated                   bool
	Uploads                     []Upload
	Prefixes                    []string
}

func (l ListUploads) appendTo(b builder) builder {
	e := l.Encoding
	b = b.root("ListMultipartUploadsResult").text("Bucket", l.Bucket).text("KeyMarker", e.apply(l.KeyMarker)).
		text("UploadIdMarker", l.UploadIDMarker).text("NextKeyMarker", e.apply(l.NextKeyMarker)).
		text("NextUploadIdMarker", l.NextIDMarker).some("Delimiter", e.apply(l.Delimiter)).text("Prefix", e.apply(l.Prefix)).
		some("EncodingType", string(e)).number("MaxUploads", int64(l.MaxUploads)).flag("IsTruncated", l.Truncated)
	for i := range l.Uploads {
		u := &l.Uploads[i]
		b = b.open("Upload").text("Key", e.apply(u.Key)).text("UploadId", u.UploadID).owner("Initiator", u.Initiator).
			owner("Owner", u.Owner).class(u.StorageClass).time("Initiated", u.Initiated).close("Upload")
	}
	return b.prefixes(e, l.Prefixes).close("ListMultipartUploadsResult")
}
