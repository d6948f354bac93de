package gateway

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, allowed := range map[string]bool{
		"k": true, "a/b": true, "/k": true, "a//b": true, "a/": true, "a/../b": true, "a/..": true, "./a": true, "..a": true, "a../b": true, "...": true, ".fenced/x": true, "a/.fence/b": true,
		strings.Repeat("k", 1024): true,
		"..":                      false, "../a": false, "a/../../b": false, "/..": false, "./../a": false, "a/b/../../../c": false, "//../a": false,
		".fence/a": false, "./.fence/a": false, "a/../.fence/b": false, "/.fence/a": false, "a\x00b": false, strings.Repeat("k", 1025): false,
	} {
		if err := checkKey(key); (err == nil) != allowed {
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

// A key is fenced if a resource covers it, and by the longest prefix.
func TestCovered(t *testing.T) {
	t.Parallel()
	g := &Gateway{config: Config{Resources: []Resource{{"b", "orders/", "orders"}, {"b", "orders/old/", "archive"}, {"c", "", "all"}}}}
	for place, want := range map[string]string{
		"b/orders/1": "orders", "b/orders/old/1": "archive", "b/orders/": "orders", "b/orders": "", "b/x": "", "b/Orders/1": "", "c/x": "all", "c/": "all", "d/orders/1": "",
	} {
		bucket, key, _ := strings.Cut(place, "/")
		if got := g.covered(bucket, key); got != want {
			t.Errorf("%s belongs to %q, want %q", place, got, want)
		}
	}
	for bucket, want := range map[string]bool{"b": true, "c": true, "d": false} {
		if g.touches(bucket) != want {
			t.Errorf("touches %s: %v", bucket, !want)
		}
	}
	g.config.Untokened = Allow
	for place, want := range map[string]string{
		"b/orders/1": "fenced", "b/x": "free", "b/x/": "free", "b//orders/1": "refused", "b/a/../orders/1": "refused", "b/./x": "refused", "b/x//": "refused", "d//orders/1": "free",
	} {
		bucket, key, _ := strings.Cut(place, "/")
		fenced, err := (&exchange{g: g}).fenced(bucket, key)
		got := "free"
		if fenced {
			got = "fenced"
		}
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", place, got, want)
		}
	}
}
