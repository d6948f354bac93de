package probe

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
)

// answer is what the store answered: 2xx if err is nil.
type answer struct {
	status int // 0 if it did not
	etag   string
	err    error
}

// absent says that there is no such object, version or upload, and nothing else: a
// 404 may be about the bucket, or about who asks (versitygw's XAdminUserNotFound).
func (a answer) absent() bool {
	return a.status == http.StatusNotFound && a.says("NoSuchKey", "NoSuchVersion", "NoSuchUpload")
}

func (a answer) refused() bool {
	return a.status == http.StatusPreconditionFailed && a.says("PreconditionFailed")
}

// says reports whether the answer's code is one of codes, or there is none, as
// without a document: the status tells then.
func (a answer) says(codes ...string) bool {
	return a.code() == "" || slices.Contains(codes, a.code())
}

// never says that the store will not answer such a request otherwise.
func (a answer) never() bool {
	return a.status >= 400 && a.status < 500 && a.tells() || a.status == http.StatusForbidden || a.status == http.StatusNotImplemented
}

// conflict is Amazon's answer to a write that lost to one at the same time.
func (a answer) conflict() bool { return a.status == http.StatusConflict }

// tells says whether the answer says anything about conditions: not if it comes
// of a policy, of how busy the store is, or of another request.
func (a answer) tells() bool {
	switch a.status {
	case 0, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return a.err == nil
	default:
		return a.status < 500 || a.status == http.StatusNotImplemented
	}
}

func (a answer) code() string {
	var response minio.ErrorResponse
	if errors.As(a.err, &response) {
		return response.Code
	}
	return ""
}

// String is the status and the code of S3, or what went wrong.
func (a answer) String() string {
	switch {
	case a.err == nil:
		return "done"
	case a.status == 0:
		return a.err.Error()
	case a.code() == "":
		return strconv.Itoa(a.status)
	default:
		return fmt.Sprintf("%d %s", a.status, a.code())
	}
}

func answered(etag string, err error) answer {
	if err == nil {
		return answer{status: http.StatusOK, etag: strings.Trim(etag, `"`)}
	}
	a := answer{err: err}
	var response minio.ErrorResponse
	if errors.As(err, &response) {
		a.status = response.StatusCode
	}
	return a
}
