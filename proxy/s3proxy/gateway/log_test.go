package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A store that does not know the proxy's own access key, which versitygw says by 404, has
// not said that there is no such object; and whoever runs the proxy is told.
func TestStoreRefusesTheProxysKeys(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Upstream){
		"unknown key":  func(u *Upstream) { u.AccessKey = "unknown" },
		"wrong secret": func(u *Upstream) { u.SecretKey = "wrong" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, logged := newSite(t), &lines{}
			s.config = func(c *Config) {
				spoil(&c.Upstream)
				c.Log = slog.New(slog.NewTextHandler(logged, nil))
			}
			core, ctx, bucket := s.proxy(t).client(t, number(1)), t.Context(), s.bucket
			does := map[string]func() error{
				"get":  func() error { _, _, _, err := core.GetObject(ctx, bucket, "k", minio.GetObjectOptions{}); return err },
				"head": func() error { _, err := core.StatObject(ctx, bucket, "k", minio.StatObjectOptions{}); return err },
				"list": func() error { _, err := core.ListObjectsV2(bucket, "", "", "", "", 10); return err },
				"put": func() error {
					_, err := core.PutObject(ctx, bucket, "k", strings.NewReader("x"), 1, "", "", minio.PutObjectOptions{})
					return err
				},
				"delete": func() error { return core.RemoveObject(ctx, bucket, "k", minio.RemoveObjectOptions{}) },
				"upload": func() error {
					_, err := core.NewMultipartUpload(ctx, bucket, "k", minio.PutObjectOptions{})
					return err
				},
				"bucket":  func() error { _, err := core.BucketExists(ctx, bucket); return err },
				"buckets": func() error { _, err := core.ListBuckets(ctx); return err },
			}
			for what, do := range does {
				answer := minio.ToErrorResponse(do())
				if bodyless := what == "head" || what == "bucket"; answer.StatusCode != http.StatusServiceUnavailable || answer.Code != carrier.CodeUnavailable && !bodyless {
					t.Errorf("%s: %d %s: %s", what, answer.StatusCode, answer.Code, answer.Message)
				}
			}
			text := logged.String()
			told := strings.Count(text, "the store refuses the proxy's own keys (upstream.access_key)")
			if n := strings.Count(text, "level=ERROR"); n != len(does) || told != n {
				t.Errorf("%d errors were logged:\n%s", n, text)
			}
		})
	}
}
