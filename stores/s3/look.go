package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// look reads the header of an object: its state, and what a HEAD would tell. It
// is one request, but two for an empty object. The info's size is that of the
// payload.
func (s *Store) look(ctx context.Context, g layout.Grant, key string) (layout.State, minio.ObjectInfo, error) {
	var opts minio.GetObjectOptions
	_ = opts.SetRange(0, layout.HeaderSize-1) // a valid range
	body, info, _, err := s.core.GetObject(ctx, s.config.Bucket, key, opts)
	if isStatus(err, http.StatusRequestedRangeNotSatisfiable) { // no byte to read
		info, err = s.core.StatObject(ctx, s.config.Bucket, key, minio.StatObjectOptions{})
		body = io.NopCloser(strings.NewReader(""))
	}
	if isAbsent(err) {
		s.known.forget(key)
		return layout.State{}, minio.ObjectInfo{}, nil
	}
	if err != nil {
		return layout.State{}, minio.ObjectInfo{}, fmt.Errorf("read header: %w", err)
	}
	defer body.Close()
	state, _, err := s.header(g, key, body, &info)
	return state, info, err
}

// errNoETag is about an object whose state cannot be named. versitygw has such
// ones where a file was put into its folder past it.
var errNoETag = errors.New("the server gives the object no ETag")

// header reads the header from the front of an object's body, and makes info
// that of the payload. It returns what it read of the body.
func (s *Store) header(g layout.Grant, key string, body io.Reader, info *minio.ObjectInfo) (layout.State, []byte, error) {
	size, err := wholeSize(info)
	if err != nil {
		return layout.State{}, nil, err
	}
	if info.ETag == "" {
		return layout.State{}, nil, unsupported(g.Token, errNoETag)
	}
	first := make([]byte, min(size, layout.HeaderSize))
	if _, err := io.ReadFull(body, first); err != nil {
		return layout.State{}, nil, fmt.Errorf("read header: %w", err)
	}
	state := layout.State{ETag: info.ETag}
	state.Header, err = layout.Parse(first, size)
	if err != nil && !errors.Is(err, layout.ErrBare) {
		return state, nil, unsupported(g.Token, err)
	}
	reframe(info, state, size)
	s.known.set(g, key, state)
	return state, first, nil
}

// wholeSize returns the size of the object of which info tells, even if it
// tells of a part of it.
func wholeSize(info *minio.ObjectInfo) (int64, error) {
	span := info.Headers.Get("Content-Range")
	if span == "" {
		if info.Size < 0 {
			return 0, errors.New("read header: server answered without a Content-Length")
		}
		return info.Size, nil
	}
	_, total, _ := strings.Cut(span, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("read header: server answered with Content-Range %q", span)
	}
	return size, nil
}

// reframe makes info tell of the payload what it told of the object of so many
// bytes. Checksums are of the object, and so not told.
func reframe(info *minio.ObjectInfo, state layout.State, size int64) {
	info.Size, info.Headers = size, nil
	if !state.Bare() {
		info.Size = max(size-layout.HeaderSize, 0)
		info.ChecksumCRC32, info.ChecksumCRC32C, info.ChecksumCRC64NVME = "", "", ""
		info.ChecksumSHA1, info.ChecksumSHA256, info.ChecksumSHA512, info.ChecksumMD5 = "", "", "", ""
		info.ChecksumXXHash64, info.ChecksumXXHash3, info.ChecksumXXHash128 = "", "", ""
		info.ChecksumAlgorithm, info.ChecksumMode = "", ""
	}
	for name := range info.Metadata {
		if strings.HasPrefix(strings.ToLower(name), "x-amz-checksum-") || name == "Content-Range" || name == "Content-Length" {
			info.Metadata.Del(name)
		}
	}
}

// reader returns the grant under which key may be read; the zero Grant if it
// may be read without a token.
func (s *Store) reader(ctx context.Context, token guard.Token, key string) (layout.Grant, error) {
	if token == (guard.Token{}) {
		if !s.config.ReadWithoutToken {
			return layout.Grant{}, refuse(token, guard.ErrNoToken)
		}
		if layout.Reserved(key) {
			return layout.Grant{}, refuse(token, fmt.Errorf("%w: key is the fence's own", guard.ErrUnsupported))
		}
		return layout.Grant{}, nil
	}
	g, err := s.claimed(ctx, token)
	if err == nil {
		if err = s.mine(token, key); s.config.ReadWithoutToken && errors.Is(err, guard.ErrNoToken) {
			err = nil
		}
	}
	return g, err
}

// readable decides whether the object in this state may be read under g:
// nothing to read is ErrNotFound.
func (s *Store) readable(g layout.Grant, state layout.State) error {
	if g != (layout.Grant{}) {
		err := g.Admits(state)
		if lenient := s.config.ReadWithoutToken && errors.Is(err, guard.ErrNoToken); err != nil && !lenient {
			return err
		}
	}
	if state.Bare() && !s.config.Legacy {
		return unsupported(g.Token, layout.ErrBare)
	}
	if !state.Exists() {
		return ErrNotFound
	}
	return nil
}

// Stat tells of an object what a HEAD would, without its payload. The size is
// that of the payload; checksums are not told, for what the server knows are
// those of the framed object. ErrNotFound if there is none.
func (s *Store) Stat(ctx context.Context, token guard.Token, key string) (minio.ObjectInfo, error) {
	info, err := s.stat(ctx, token, key)
	return info, s.done(ctx, "stat", key, err)
}

func (s *Store) stat(ctx context.Context, token guard.Token, key string) (minio.ObjectInfo, error) {
	g, err := s.reader(ctx, token, key)
	if err != nil {
		return minio.ObjectInfo{}, err
	}
	state, info, err := s.look(ctx, g, key)
	if err == nil {
		err = s.readable(g, state)
	}
	if err != nil {
		return minio.ObjectInfo{}, err
	}
	return info, nil
}
