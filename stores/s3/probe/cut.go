package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	cutSize = 256 << 10 // bytes of the body that breaks off, half of which is sent
	// A server learns that a connection broke when its end arrives.
	cutTime = time.Second
)

// cutOf is the check that a body which breaks off changes nothing, when it is sent
// as package s3store sends it: in signed chunks, with TLS in front of a checksum.
func cutOf(s *store) check {
	return check{Row{Name: "PutObject/cut", Operation: "PutObject", Asked: "nothing is stored of a body that breaks off", Framed: true}, s.cut}
}

var errCut = errors.New("cut here")

func (s *store) cut(ctx context.Context) (Result, string) {
	how, opts := "in signed chunks", minio.PutObjectOptions{}
	if s.core.EndpointURL().Scheme == "https" {
		how, opts = "with a checksum behind it", minio.PutObjectOptions{Checksum: minio.ChecksumFullObjectCRC32C}
		if !s.takes(ctx, opts) {
			how, opts = "unsigned", minio.PutObjectOptions{}
		}
	}
	key, content := s.fresh(), fill()
	made := s.put(ctx, key, content, condition{})
	if made.err != nil {
		return Unknown, "make an object: " + made.String()
	}
	opts.SetMatchETag(made.etag)
	half := io.MultiReader(strings.NewReader(strings.Repeat("x", cutSize/2)), failing{})
	limited, cancel := s.limit(ctx)
	defer cancel()
	if _, err := s.core.PutObject(limited, s.config.Bucket, key, half, cutSize, "", "", opts); err == nil {
		return Violated, "answered as if it were whole, " + how
	}
	for start, pause := time.Now(), 5*time.Millisecond; ; pause *= 2 {
		switch got, _, a := s.read(ctx, key); {
		case a.err == nil && got != content:
			return Violated, fmt.Sprintf("%d bytes of %d are stored, %s", len(got), cutSize, how)
		case a.err != nil:
			return Unknown, "read it back: " + a.String()
		case time.Since(start) > cutTime:
			return Honoured, "nothing is stored, " + how
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Unknown, ctx.Err().Error()
		}
	}
}

// takes reports whether what is sent so is stored as it is.
func (s *store) takes(ctx context.Context, opts minio.PutObjectOptions) bool {
	key, content := s.fresh(), fill()
	limited, cancel := s.limit(ctx)
	defer cancel()
	// Not an io.Seeker, as what package s3store sends.
	info, err := s.core.PutObject(limited, s.config.Bucket, key, io.MultiReader(strings.NewReader(content)), int64(len(content)), "", "", opts)
	if s.makes(key, answered(info.ETag, err)).err != nil {
		return false
	}
	got, _, a := s.read(ctx, key)
	return a.err == nil && got == content
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errCut }
