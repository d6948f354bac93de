package s3ref

import (
	"encoding/xml"
	"time"
)

// The documents, as far as clients look at them (S3 API reference).

type xmlFailure struct {
	XMLName  xml.Name `xml:"Error"`
	Code     string   `xml:"Code"`
	Message  string   `xml:"Message"`
	Resource string   `xml:"Resource"`
}

type xmlDelete struct {
	Objects []struct {
		Key  string `xml:"Key"`
		ETag string `xml:"ETag"`
	} `xml:"Object"`
}

type xmlDeleteResult struct {
	XMLName xml.Name   `xml:"DeleteResult"`
	Deleted []xmlKey   `xml:"Deleted"`
	Errors  []xmlError `xml:"Error"`
}

type xmlKey struct {
	Key string `xml:"Key"`
}

type xmlError struct {
	Key     string `xml:"Key"`
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

type xmlCopy struct {
	XMLName      xml.Name  `xml:"CopyObjectResult"`
	ETag         string    `xml:"ETag"`
	LastModified time.Time `xml:"LastModified"`
}

type xmlEntry struct {
	Key          string    `xml:"Key"`
	ETag         string    `xml:"ETag"`
	Size         int       `xml:"Size"`
	LastModified time.Time `xml:"LastModified"`
	VersionID    string    `xml:"VersionId,omitempty"`
}

// xmlList lists Contents, and is called ListBucketResult, or Versions, and is
// called ListVersionsResult.
type xmlList struct {
	XMLName     xml.Name
	Name        string     `xml:"Name"`
	Prefix      string     `xml:"Prefix"`
	MaxKeys     int        `xml:"MaxKeys"`
	IsTruncated bool       `xml:"IsTruncated"`
	Contents    []xmlEntry `xml:"Contents"`
	Versions    []xmlEntry `xml:"Version"`
}

type xmlCreated struct {
	XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
	Bucket   string   `xml:"Bucket"`
	Key      string   `xml:"Key"`
	UploadID string   `xml:"UploadId"`
}

type xmlCompleted struct {
	XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
	Bucket  string   `xml:"Bucket"`
	Key     string   `xml:"Key"`
	ETag    string   `xml:"ETag"`
}

type xmlUpload struct {
	Key       string    `xml:"Key"`
	UploadID  string    `xml:"UploadId"`
	Initiated time.Time `xml:"Initiated"`
}

type xmlUploads struct {
	XMLName     xml.Name    `xml:"ListMultipartUploadsResult"`
	Bucket      string      `xml:"Bucket"`
	IsTruncated bool        `xml:"IsTruncated"`
	Uploads     []xmlUpload `xml:"Upload"`
}
