package cli

import (
	"errors"
	"strings"

	"github.com/minio/minio-go/v7"
)

// explainCoded is what a command makes of an error, but for the answer of an S3 store
// that refuses the keys: that is the same whatever was being done when it came, and
// some stores give it a status that means something else.
func explainCoded(coded *CodedError) (int, string) {
	var answer minio.ErrorResponse
	if coded.code != ExitFailure && coded.code != ExitDenied || !errors.As(coded.err, &answer) || !aboutKeys(answer.Code) {
		return coded.code, coded.Error()
	}
	// The steps that led to the answer are not the user's: they are left out of what
	// was first made of it.
	first := coded
	for inner := first; errors.As(first.err, &inner); {
		first = inner
	}
	const advice = "; check the keys, and what their user may do"
	answered := strings.TrimSuffix(answer.Error(), ".") + advice
	within := errors.Unwrap(first.err)
	if within == nil {
		return ExitDenied, coded.Error() + advice
	}
	text := strings.Replace(coded.Error(), within.Error()+advice, answered, 1)
	if !strings.Contains(text, advice) {
		text = strings.Replace(text, within.Error(), answered, 1)
	}
	return ExitDenied, text
}

// aboutKeys reports whether a code says that the store does not know the keys, that they
// are wrong, or not in use any more.
func aboutKeys(code string) bool {
	switch code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired",
		"InvalidSecurity", "AccountProblem", "NotSignedUp", // Amazon; the first also Ceph, MinIO, SeaweedFS
		"XAdminUserNotFound", // versitygw with one user only: 404
		"UserSuspended":      // Ceph
		return true
	}
	return false
}
