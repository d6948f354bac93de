package upstream

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Parts of any size become the object, and those that are refused are so as minio-go's
// are.
func TestParts(t *testing.T) {
	t.Parallel()
	server := testenv.StartS3(t)
	u := newUpstream(t, server.Endpoint(), server.Region, server.AccessKey, server.SecretKey)
	bucket, key := server.Bucket(t), "a b/+&=?#%25é"
	id, err := u.Core.NewMultipartUpload(t.Context(), bucket, key, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var whole []byte
	var parts []minio.CompletePart
	for i, size := range []int{5<<20 + 77, 5 << 20, 40} {
		value := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		value[0] = byte(i)
		part, err := u.PutObjectPart(t.Context(), bucket, key, id, i+1, bytes.NewReader(value), int64(size), minio.PutObjectPartOptions{})
		sum := md5.Sum(value)
		if err != nil || part.PartNumber != i+1 || part.Size != int64(size) || part.ETag != hex.EncodeToString(sum[:]) {
			t.Fatalf("%+v, %v", part, err)
		}
		whole = append(whole, value...)
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: part.ETag})
	}
	if _, err := u.Core.CompleteMultipartUpload(t.Context(), bucket, key, id, parts, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	alike(t, u, bucket, key, minio.GetObjectOptions{}, whole)
	for _, c := range []struct {
		bucket, id string
		number     int
	}{{bucket, id, 1}, {bucket, "no such&id=+%2F/ü", 1}, {"no-such-bucket", id, 1}, {bucket, id, 10001}} {
		_, ours := u.PutObjectPart(t.Context(), c.bucket, key, c.id, c.number, strings.NewReader("x"), 1, minio.PutObjectPartOptions{})
		_, theirs := u.Core.PutObjectPart(t.Context(), c.bucket, key, c.id, c.number, strings.NewReader("x"), 1, minio.PutObjectPartOptions{})
		sameError(t, c.bucket+" "+c.id, ours, theirs)
	}
	// What the caller says in the header goes with it, and stays the caller's.
	header := http.Header{"X-Amz-Checksum-Crc32": {"AAAAAA=="}}
	id, err = u.Core.NewMultipartUpload(t.Context(), bucket, key, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.PutObjectPart(t.Context(), bucket, key, id, 1, strings.NewReader("x"), 1, minio.PutObjectPartOptions{CustomHeader: header}); err == nil {
		t.Error("a wrong checksum was not sent")
	}
	if len(header) != 1 {
		t.Errorf("the header became %v", header)
	}
}
