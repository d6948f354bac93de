package selftest

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// Trailing is the checksum that is sent behind a payload which is not signed.
const Trailing = minio.ChecksumFullObjectCRC32C

// Trailers finds out, once, whether the server takes a checksum behind a payload:
// two requests. There are servers that refuse it, and such that take it for the
// payload's end.
func (t *Tests) Trailers(ctx context.Context, b *parts.Bucket) (bool, error) {
	err := t.trailers.do(ctx, func() (err error) {
		for try := 0; ; try++ {
			if t.trails, err = trails(ctx, b); err == nil {
				return nil
			}
			if err := request.GiveUp(ctx, try, err); err != nil {
				return fmt.Errorf("try a checksum behind a payload: %w", err)
			}
		}
	})
	return t.trails, err
}

func trails(ctx context.Context, b *parts.Bucket) (bool, error) {
	opts := minio.PutObjectOptions{ContentType: "text/plain", Checksum: Trailing}
	_, err := b.Core.PutObject(ctx, b.Name, key, payload.NewBody(strings.NewReader(text), int64(len(text))), int64(len(text)), "", "", opts)
	if request.Final(err) && !request.Overtaken(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	body, _, _, err := b.Core.GetObject(ctx, b.Name, key, minio.GetObjectOptions{})
	if err != nil {
		return false, err
	}
	defer body.Close()
	got, err := io.ReadAll(io.LimitReader(body, 1<<10))
	return string(got) == text, err
}
