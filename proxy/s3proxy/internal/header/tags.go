package header

import (
	"github.com/minio/minio-go/v7/pkg/tags"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
)

const (
	// maxTags is how many tags S3 lets an object have.
	maxTags = 10
	// badRequest is S3's code for too many of them.
	badRequest refusal.Code = "BadRequest"
)

// CheckTags refuses tags that S3 does not let an object have. Letters beyond
// ASCII are refused too, which S3 allows: minio-go would send no tags at all.
func CheckTags(set map[string]string) error {
	if len(set) > maxTags {
		return refusal.New(badRequest, "Object tags cannot be greater than %d", maxTags)
	}
	for key, value := range set {
		if _, err := tags.NewTags(map[string]string{key: value}, true); err != nil {
			return refusal.New(refusal.InvalidTag, "%s: only ASCII letters, digits, blanks and + - = . _ : / @ are possible", err)
		}
	}
	return nil
}
