package sigv4

import (
	"fmt"
	"net/http"
)

// Error is why a request or its payload is refused, in S3's words. No secret
// and no signature that would have been right is in it.
type Error struct {
	// Code is S3's, like "SignatureDoesNotMatch".
	Code string
	// Status is the one of HTTP.
	Status int
	// Message is for people.
	Message string
	// Region is the one to sign for, if the request was signed for another one:
	// clients read it and try again. Empty otherwise.
	Region string

	err error // what reading the body came to
}

func (e *Error) Error() string {
	if e.err != nil {
		return e.Code + ": " + e.Message + ": " + e.err.Error()
	}
	return e.Code + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.err }

func refuse(status int, code, format string, args ...any) *Error {
	return &Error{Code: code, Status: status, Message: fmt.Sprintf(format, args...)}
}

func denied(format string, args ...any) *Error {
	return refuse(http.StatusForbidden, "AccessDenied", format, args...)
}

func mismatch() *Error {
	return refuse(http.StatusForbidden, "SignatureDoesNotMatch",
		"The request signature we calculated does not match the signature you provided. Check your key and signing method.")
}

func invalidArgument(format string, args ...any) *Error {
	return refuse(http.StatusBadRequest, "InvalidArgument", format, args...)
}

func invalidRequest(format string, args ...any) *Error {
	return refuse(http.StatusBadRequest, "InvalidRequest", format, args...)
}

func unsupported(format string, args ...any) *Error {
	return refuse(http.StatusNotImplemented, "NotImplemented", format, args...)
}

func badDigest(format string, args ...any) *Error {
	return refuse(http.StatusBadRequest, "BadDigest", format, args...)
}

func incomplete(err error) *Error {
	e := refuse(http.StatusBadRequest, "IncompleteBody",
		"The request body terminated unexpectedly, or is not as long as its headers say.")
	e.err = err
	return e
}

func malformedTrailer() *Error {
	return refuse(http.StatusBadRequest, "MalformedTrailerError",
		"The request contained trailing data that was not well-formed or did not conform to our published schema.")
}
