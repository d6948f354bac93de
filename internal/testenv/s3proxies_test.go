package testenv

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

func TestS3Proxies(t *testing.T) {
	t.Parallel()
	server := S3(t)
	for name, start := range map[string]func(testing.TB, *S3Server) string{"nginx": Nginx, "versitygw": VersityProxy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			through, bucket := server.ClientAt(t, start(t, server)), server.Bucket(t)
			const text = "hello"
			_, err := through.PutObject(t.Context(), bucket, "k", strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			info, err := server.Client(t).StatObject(t.Context(), bucket, "k", minio.StatObjectOptions{})
			if err != nil || info.Size != int64(len(text)) {
				t.Fatalf("%d bytes, %v", info.Size, err)
			}
		})
	}
}
