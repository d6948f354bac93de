package s3proxy

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// An object looks as one that was stored past the proxy (I7).
func TestObject(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	c := p.app(t, token(33))
	info := put(t, c, e.bucket, "orders/1", "payload")
	if !strings.HasSuffix(info.ETag, "-0") {
		t.Errorf("ETag %s could be taken for an MD5", info.ETag)
	}
	expectValue(t, c, e.bucket, "orders/1", "payload")
	stat, err := c.StatObject(t.Context(), e.bucket, "orders/1", minio.StatObjectOptions{})
	if err != nil || stat.Size != 7 || stat.ETag != info.ETag {
		t.Errorf("HEAD: %+v, %v", stat, err)
	}
	if err := c.RemoveObject(t.Context(), e.bucket, "orders/1", minio.RemoveObjectOptions{}); err != nil {
		t.Error(err)
	}
	_, err = get(t, c, e.bucket, "orders/1", minio.GetObjectOptions{})
	refused(t, "get of what was deleted", err, 404, "NoSuchKey")
	_, err = c.StatObject(t.Context(), e.bucket, "orders/1", minio.StatObjectOptions{})
	refused(t, "head of what was deleted", err, 404, "NoSuchKey")
}
