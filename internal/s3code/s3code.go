// Package s3code knows what the error codes of S3 stores are about.
package s3code

// AboutKeys reports whether a code says that the store does not know the keys of whoever
// asks, that they are wrong, or not in use any more. Some stores say so with a status that
// means something else: a reader takes 404 for "there is none yet".
func AboutKeys(code string) bool {
	switch code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired",
		"InvalidSecurity", "AccountProblem", "NotSignedUp", // Amazon; the first also Ceph, MinIO, SeaweedFS
		"XAdminUserNotFound", // versitygw with one user only: 404
		"UserSuspended":      // Ceph
		return true
	}
	return false
}
