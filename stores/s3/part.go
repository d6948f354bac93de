package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
)

// UploadPart uploads a part of an upload, number 1 to 10,000, under the very
// token that it was begun under. Size is in bytes and must be known. The payload
// is streamed; if r fails before its end, no part is stored (with TLS versitygw may
// keep one, with an ETag that nobody was told). A part may be uploaded again, the
// last counts, and by any process.
//
// Part 1 is stored behind the header of the object. Its ETag is not the MD5 of
// its payload, and it may have at most 5 GiB less 64 bytes.
func (s *Store) UploadPart(ctx context.Context, token guard.Token, key, id string, number int, r io.Reader, size int64) (minio.ObjectPart, error) {
	p, err := payload.Of(r, size)
	if err == nil && p.Size() < 0 {
		err = errors.New("size of a part is not known")
	}
	var part minio.ObjectPart
	if err != nil {
		err = notApplied(err)
	} else {
		part, err = s.uploadPart(ctx, token, key, id, number, p)
	}
	return part, s.done(ctx, "upload part of", key, err)
}

func (s *Store) uploadPart(ctx context.Context, token guard.Token, key, id string, number int, p *payload.Payload) (minio.ObjectPart, error) {
	var none minio.ObjectPart
	_, opened, err := s.ownUpload(ctx, token, key, id)
	if err != nil {
		return none, notApplied(err)
	}
	if number < 1 || number > parts.Most {
		return none, notApplied(minio.ErrorResponse{StatusCode: 400, Code: minio.InvalidArgument, Message: "Part number must be an integer between 1 and 10000, inclusive"})
	}
	if err := p.Keep(); err != nil {
		return none, notApplied(err)
	}
	var front []byte
	if number == 1 {
		front = opened.Header.Bytes()
	}
	u := &parts.Upload{Bucket: s.parts, Key: key, ID: opened.Upstream}
	part, err := u.Part(ctx, number, front, p)
	if err != nil {
		return none, err
	}
	return minio.ObjectPart{PartNumber: number, ETag: part.ETag, Size: p.Size()}, nil
}

// CopyPart uploads as a part what it reads of another object: length bytes from
// offset on, all that follow if length is 0. The bytes pass through this
// process.
func (s *Store) CopyPart(ctx context.Context, token guard.Token, key, id string, number int, src CopySource, offset, length int64) (minio.ObjectPart, error) {
	part, err := s.copyPart(ctx, token, key, id, number, src, offset, length)
	return part, s.done(ctx, "copy part to", key, err)
}

func (s *Store) copyPart(ctx context.Context, token guard.Token, key, id string, number int, src CopySource, offset, length int64) (minio.ObjectPart, error) {
	if src.Token == (guard.Token{}) {
		src.Token = token
	}
	if _, _, err := s.ownUpload(ctx, token, key, id); err != nil { // before anything is read
		return minio.ObjectPart{}, notApplied(err)
	}
	from, err := s.get(ctx, src.Token, src.Key, src.options(offset, length))
	if err != nil {
		return minio.ObjectPart{}, notApplied(fmt.Errorf("read source %q: %w", src.Key, err))
	}
	defer from.Close()
	if length > 0 && from.Length != length {
		return minio.ObjectPart{}, notApplied(rangeError(src.Key))
	}
	return s.uploadPart(ctx, token, key, id, number, s.reread(src, from, offset, length))
}
