package refusal

import "net/http"

// Code is one of S3's error codes.
//
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
type Code string

// Codes that the proxy itself comes to.
const (
	AccessDenied             Code = "AccessDenied"
	BadDigest                Code = "BadDigest"
	BucketAlreadyOwnedByYou  Code = "BucketAlreadyOwnedByYou"
	EntityTooLarge           Code = "EntityTooLarge"
	EntityTooSmall           Code = "EntityTooSmall"
	IncompleteBody           Code = "IncompleteBody"
	InternalError            Code = "InternalError"
	InvalidArgument          Code = "InvalidArgument"
	InvalidBucketName        Code = "InvalidBucketName"
	InvalidPart              Code = "InvalidPart"
	InvalidPartNumber        Code = "InvalidPartNumber"
	InvalidPartOrder         Code = "InvalidPartOrder"
	InvalidRange             Code = "InvalidRange"
	InvalidRequest           Code = "InvalidRequest"
	InvalidTag               Code = "InvalidTag"
	InvalidURI               Code = "InvalidURI"
	KeyTooLong               Code = "KeyTooLongError"
	MalformedXML             Code = "MalformedXML"
	MetadataTooLarge         Code = "MetadataTooLarge"
	MaxMessageLengthExceeded Code = "MaxMessageLengthExceeded"
	MissingContentLength     Code = "MissingContentLength"
	NoSuchBucket             Code = "NoSuchBucket"
	NoSuchKey                Code = "NoSuchKey"
	NoSuchUpload             Code = "NoSuchUpload"
	NotImplemented           Code = "NotImplemented"
	NotModified              Code = "NotModified"
	PreconditionFailed       Code = "PreconditionFailed"
	RequestTimeout           Code = "RequestTimeout"
	SlowDown                 Code = "SlowDown"
)

// Status is the code's HTTP status.
func (c Code) Status() int {
	switch c {
	case AccessDenied:
		return http.StatusForbidden
	case BucketAlreadyOwnedByYou:
		return http.StatusConflict
	case InternalError:
		return http.StatusInternalServerError
	case InvalidPartNumber, InvalidRange:
		return http.StatusRequestedRangeNotSatisfiable
	case MissingContentLength:
		return http.StatusLengthRequired
	case NoSuchBucket, NoSuchKey, NoSuchUpload:
		return http.StatusNotFound
	case NotImplemented:
		return http.StatusNotImplemented
	case NotModified:
		return http.StatusNotModified
	case PreconditionFailed:
		return http.StatusPreconditionFailed
	case SlowDown:
		return http.StatusServiceUnavailable
	case BadDigest, EntityTooLarge, EntityTooSmall, IncompleteBody, InvalidArgument, InvalidBucketName, InvalidPart,
		InvalidPartOrder, InvalidRequest, InvalidTag, InvalidURI, KeyTooLong, MalformedXML, MaxMessageLengthExceeded, MetadataTooLarge, RequestTimeout:
	}
	return http.StatusBadRequest
}
