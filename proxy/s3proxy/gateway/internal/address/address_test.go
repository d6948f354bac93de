package address

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

func TestKey(t *testing.T) {
	t.Parallel()
	for key, allowed := range map[string]bool{
		"k": true, "a/b": true, "/k": true, "a//b": true, "a/": true, "a/../b": true, "a/..": true, "./a": true, "..a": true, "a../b": true, "...": true, ".fenced/x": true, "a/.fence/b": true,
		strings.Repeat("k", 1024): true,
		"..":                      false, "../a": false, "a/../../b": false, "/..": false, "./../a": false, "a/b/../../../c": false, "//../a": false,
		".fence/a": false, "./.fence/a": false, "a/../.fence/b": false, "/.fence/a": false, "a\x00b": false, strings.Repeat("k", 1025): false,
	} {
		if err := Key(key); (err == nil) != allowed {
			t.Errorf("%.40q: %v", key, err)
		}
	}
}

// What is known of a plain name is what s3utils knows.
func TestPlainBucket(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{
		"abc": true, "a-b": true, "0a9": true, strings.Repeat("a", 63): true, "a--b": true,
		"": false, "ab": false, strings.Repeat("a", 64): false, "-ab": false, "ab-": false, "a.b": false, "A-b": false, "a_b": false, "a/b": false, "a%b": false, "ab\x00": false,
	} {
		if got := plainBucket(name); got != plain {
			t.Errorf("%.20q is plain: %v", name, got)
		}
		if plain && s3utils.CheckValidBucketName(name) != nil {
			t.Errorf("%.20q is no name of a bucket", name)
		}
	}
}
