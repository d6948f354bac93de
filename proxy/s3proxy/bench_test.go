package s3proxy

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
)

// What a request costs past the proxy, and through it. Client, proxy and store
// share the machine.
func BenchmarkObject(b *testing.B) {
	e := newEnv(b)
	ways := []struct {
		name string
		core minio.Core
	}{{"direct", e.core}, {"proxy", e.start(b).app(b, token(33))}}
	for _, size := range []int{4 << 10, 16 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		for _, way := range ways {
			key := func(n int64) string { return fmt.Sprintf("%s-%d-%d", way.name, size, n%64) }
			b.Run(fmt.Sprintf("put/%d/%s", size, way.name), func(b *testing.B) {
				parallel(b, size, func(n int64) error {
					_, err := way.core.PutObject(b.Context(), e.bucket, key(n), bytes.NewReader(body), int64(size), "", "", minio.PutObjectOptions{DisableContentSha256: true})
					return err
				})
			})
			b.Run(fmt.Sprintf("get/%d/%s", size, way.name), func(b *testing.B) {
				for n := range int64(64) {
					if _, err := way.core.PutObject(b.Context(), e.bucket, key(n), bytes.NewReader(body), int64(size), "", "", minio.PutObjectOptions{DisableContentSha256: true}); err != nil {
						b.Fatal(err)
					}
				}
				parallel(b, size, func(n int64) error {
					r, _, _, err := way.core.GetObject(b.Context(), e.bucket, key(n), minio.GetObjectOptions{})
					if err != nil {
						return err
					}
					defer r.Close()
					if n, err := io.Copy(io.Discard, r); err != nil || n != int64(size) {
						return fmt.Errorf("%d bytes: %w", n, err)
					}
					return nil
				})
			})
		}
	}
}

// parallel runs f in 16 goroutines.
func parallel(b *testing.B, size int, f func(n int64) error) {
	b.Helper()
	b.SetBytes(int64(size))
	b.SetParallelism(8)
	b.ReportAllocs()
	b.ResetTimer()
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(n.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
