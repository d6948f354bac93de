package request

import (
	"errors"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// ErrNoETag is about an object whose state cannot be named. versitygw has such
// ones where a file was put into its folder past it.
var ErrNoETag = errors.New("the server gives the object no ETag")

// ResponseOf returns the answer of the server that err is, if it is one.
func ResponseOf(err error) (minio.ErrorResponse, bool) {
	if err == nil {
		return minio.ErrorResponse{}, false
	}
	var r minio.ErrorResponse
	ok := errors.As(err, &r)
	return r, ok
}

// IsStatus reports whether err is an answer of this status.
func IsStatus(err error, status int) bool {
	r, ok := ResponseOf(err)
	return ok && r.StatusCode == status
}

// IsAbsent reports whether err says that there is no such object; a bucket that
// is not there is another matter.
func IsAbsent(err error) bool { return IsCode(err, minio.NoSuchKey) }

// IsCode reports whether err is an answer of this code.
func IsCode(err error, code string) bool {
	r, ok := ResponseOf(err)
	return ok && r.Code == code
}

// IsConflict reports whether err says that another request was there at the same
// moment. A 409 may mean other things: that a key is a folder of files, to
// versitygw.
func IsConflict(err error) bool {
	r, ok := ResponseOf(err)
	if !ok || r.StatusCode != http.StatusConflict {
		return false
	}
	switch r.Code {
	case "ConditionalRequestConflict", "OperationAborted", "Conflict", "409 Conflict", "":
		return true
	}
	return false
}

// Final reports whether err is an answer that says that the request was not
// carried out and will not be.
func Final(err error) bool {
	r, ok := ResponseOf(err)
	return ok && final(r.StatusCode)
}

// Raced reports whether a request that was not carried out may have lost to
// another write: the server says so, or it hung up without a word.
func Raced(err error) bool {
	_, answered := ResponseOf(err)
	return !answered || Overtaken(err) || IsStatus(err, http.StatusNotFound)
}

// Overtaken reports whether a request was not carried out because the state
// that it names is gone.
func Overtaken(err error) bool {
	return IsStatus(err, http.StatusPreconditionFailed) || IsStatus(err, http.StatusConflict) || IsAbsent(err)
}
