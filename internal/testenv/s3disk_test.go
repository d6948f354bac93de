package testenv_test

import (
	"bytes"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestS3DiskFull(t *testing.T) {
	t.Parallel()
	if err := testenv.CannotFill(); err != nil {
		t.Skip(err)
	}
	s := testenv.StartS3OnDisk(t, 32<<20)
	bucket, client := s.Bucket(t), s.Client(t)
	put := func() error {
		_, err := client.PutObject(t.Context(), bucket, "key", bytes.NewReader(make([]byte, 1<<20)), 1<<20, minio.PutObjectOptions{})
		return err
	}
	s.Fill(t, 64<<10)
	if err := put(); err == nil {
		t.Error("a full disk takes an object")
	}
	s.Free(t)
	if err := put(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
