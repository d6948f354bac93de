package s3store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
)

// Metadata up to the 2 KiB that S3 allows, and all else that is stored beside
// the bytes, in one PUT and in parts.
func TestMetadata(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{PartSize: parts.MinSize})
		const line = "=?UTF-8?B?YQpi?=" // a\nb
		o := PutOptions{
			ContentType: "text/x-test", ContentEncoding: "identity", ContentDisposition: `attachment; filename="a b"`,
			ContentLanguage: "de", CacheControl: "max-age=5", Expires: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC),
			UserMetadata: map[string]string{
				"x-amz-meta-Kind": "test", "Long": strings.Repeat("x", 2048-len("KindtestLongFence-TokenyLine"+line)), "Fence-Token": "y", "Line": line,
			},
		}
		bareOptions, err := o.minio()
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"small": "v", "large": big} {
			bareOptions.PartSize = parts.MinSize
			if _, err := e.bare.PutObject(t.Context(), e.bucket, "bare", strings.NewReader(value), int64(len(value)), bareOptions); err != nil {
				t.Fatal(err)
			}
			bare, err := e.bare.StatObject(t.Context(), e.bucket, "bare", minio.StatObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.store.Put(t.Context(), writer(33), key, strings.NewReader(value), int64(len(value)), o); err != nil {
				t.Fatal(err)
			}
			if _, err := e.store.Copy(t.Context(), writer(33), CopyDest{Key: key + " copy"}, CopySource{Key: key}); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{key, key + " copy"} {
				info, err := e.store.Stat(t.Context(), writer(33), key, GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if info.ContentType != o.ContentType || info.ContentEncoding != bare.ContentEncoding || !info.Expires.Equal(o.Expires) ||
					info.Metadata.Get("Content-Disposition") != o.ContentDisposition || info.Metadata.Get("Content-Language") != o.ContentLanguage ||
					info.Metadata.Get("Cache-Control") != o.CacheControl || info.UserMetadata["Kind"] != "test" || len(info.UserMetadata) != 4 || info.UserMetadata["Line"] != "a\nb" || info.UserMetadata["Long"] != o.UserMetadata["Long"] ||
					info.Size != int64(len(value)) || info.LastModified.IsZero() {
					t.Errorf("%s: %.1500s", key, fmt.Sprintf("%+v", info))
				}
			}
		}
		o = PutOptions{ContentType: "text/other", UserMetadata: map[string]string{"A": "b"}}
		if _, err := e.store.Copy(t.Context(), writer(33), CopyDest{Key: "other", ReplaceMetadata: true, PutOptions: o}, CopySource{Key: "small"}); err != nil {
			t.Fatal(err)
		}
		info, err := e.store.Stat(t.Context(), writer(33), "other", GetOptions{})
		if err != nil || info.ContentType != "text/other" || fmt.Sprint(info.UserMetadata) != "map[A:b]" {
			t.Errorf("copy with metadata of its own: %+v, %v", info, err)
		}
		for name, bad := range map[string]PutOptions{
			"a name with a blank":       {UserMetadata: map[string]string{"a b": "c"}},
			"a value of two lines":      {UserMetadata: map[string]string{"a": "b\r\nX-Amz-Acl: public-read"}},
			"another IfNoneMatch":       {IfNoneMatch: "etag"},
			"both conditions":           {IfNoneMatch: "*", IfMatch: "*"},
			"a checksum of whole alone": {Checksum: minio.ChecksumCRC64NVME},
		} {
			_, err := e.store.Put(t.Context(), writer(33), "bad", strings.NewReader("v"), 1, bad)
			if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
				t.Errorf("%s: %v (%v)", name, err, guard.OutcomeOf(err))
			}
		}
	})
}
