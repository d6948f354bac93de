// Package frame takes the header out of what a server tells of an object.
package frame

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Read reads the header from the front of an object's body. It returns the state
// of the key, the object's size, and what it read of the body. The error matches
// layout.ErrDamaged or request.ErrNoETag if the object cannot be fenced as it is.
func Read(body io.Reader, info *minio.ObjectInfo) (layout.State, int64, []byte, error) {
	size, err := Size(info)
	if err != nil {
		return layout.State{}, 0, nil, err
	}
	if info.ETag == "" {
		return layout.State{}, 0, nil, request.ErrNoETag
	}
	first := make([]byte, min(size, layout.HeaderSize))
	if _, err := io.ReadFull(body, first); err != nil {
		return layout.State{}, 0, nil, fmt.Errorf("read header: %w", err)
	}
	state := layout.State{ETag: info.ETag}
	state.Header, err = layout.Parse(first, size)
	if errors.Is(err, layout.ErrBare) {
		err = nil
	}
	return state, size, first, err
}

// Size returns the size of the object of which info tells, even if it tells of a
// part of it.
func Size(info *minio.ObjectInfo) (int64, error) {
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

// Begin returns where in the object the part begins of which info tells.
func Begin(info *minio.ObjectInfo) (int64, error) {
	span := info.Headers.Get("Content-Range")
	if span == "" && info.Size == 0 { // an empty object has no parts
		return 0, nil
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(span, "bytes "), "-")
	at, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("server answered to a range with Content-Range %q", span)
	}
	return at, nil
}

// Parts returns how many parts the server says that the object was uploaded in;
// 0 if it does not.
func Parts(info *minio.ObjectInfo) int {
	text := info.Headers.Get("X-Amz-Mp-Parts-Count")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// ExpiresHeader is where an Expires stands that minio-go would fail on.
const ExpiresHeader = "X-Fence-Expires"

// Expires is the Expires in the header of an answer, as it is stored.
func Expires(info *minio.ObjectInfo) string {
	if text := info.Headers.Get("Expires"); text != "" {
		return text
	}
	return info.Headers.Get(ExpiresHeader)
}

// Hide makes info tell of the payload what it told of the object of so many
// bytes. Checksums are of the object, and so not told. Its Expires is among the
// metadata then, as it is stored.
func Hide(info *minio.ObjectInfo, state layout.State, size int64) {
	if text := Expires(info); text != "" && info.Metadata != nil {
		info.Metadata.Set("Expires", text)
	}
	info.Size, info.Headers = size, nil
	if !state.Bare() {
		info.Size = max(size-layout.HeaderSize, 0)
		info.ChecksumCRC32, info.ChecksumCRC32C, info.ChecksumCRC64NVME = "", "", ""
		info.ChecksumSHA1, info.ChecksumSHA256, info.ChecksumSHA512, info.ChecksumMD5 = "", "", "", ""
		info.ChecksumXXHash64, info.ChecksumXXHash3, info.ChecksumXXHash128 = "", "", ""
		info.ChecksumAlgorithm, info.ChecksumMode = "", ""
	}
	for name := range info.Metadata {
		if checksum(name) || name == "Content-Range" || name == "Content-Length" {
			info.Metadata.Del(name)
		}
	}
}

// checksum reports whether a header is one that tells a checksum.
func checksum(name string) bool {
	const prefix = "x-amz-checksum-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// Uploaded is what of the answer to a write is told to its caller: the checksums
// are not those of the payload, which has so many bytes.
func Uploaded(info minio.UploadInfo, size int64) minio.UploadInfo {
	return minio.UploadInfo{
		Bucket: info.Bucket, Key: info.Key, ETag: info.ETag, Size: size, LastModified: info.LastModified, Location: info.Location,
		VersionID: info.VersionID, Expiration: info.Expiration, ExpirationRuleID: info.ExpirationRuleID,
	}
}
