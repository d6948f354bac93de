package s3store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/selftest"
)

// seal makes the server see if a payload breaks off. minio-go signs none with TLS,
// and then versitygw keeps what it has of one when the connection breaks. A small
// payload gets its SHA-256, which is returned; a larger one, which is not worth
// reading twice, or cannot be, a checksum behind it, if the server takes one.
func (c *single) seal(ctx context.Context, front []byte, opts *minio.PutObjectOptions) (sum string, err error) {
	if c.store.core.EndpointURL().Scheme != "https" || c.checksum.IsSet() {
		return "", nil
	}
	if whole := c.payload.Section(); whole != nil && c.payload.Size() <= payload.Small {
		sum := sha256.New()
		sum.Write(front)
		_, err := io.Copy(sum, whole)
		return hex.EncodeToString(sum.Sum(nil)), err
	}
	trails, err := c.store.tested.Trailers(ctx, c.store.parts)
	if trails {
		opts.Checksum = selftest.Trailing
	}
	return "", err
}
