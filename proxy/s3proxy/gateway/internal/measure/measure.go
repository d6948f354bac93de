// Package measure holds the sizes of an upload's parts against what S3 allows and what
// the client says.
package measure

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// list asks for the parts behind marker, at most limit of them.
type list = func(marker, limit int) (minio.ListObjectPartsResult, error)

// maxPage is the most that a list of parts has on one page.
const maxPage = 1000

// Parts refuses a completion whose first part is too small, or whose parts do not have the
// size that the header says. Parts are as the store names them, and list lists them with
// the sizes of their payload. What else is wrong with them the store tells.
func Parts(parts []minio.CompletePart, h http.Header, list list) error {
	return errors.Join(first(parts, list), whole(parts, h, list))
}

// MinPart is the least size of a part in bytes, but for the last one.
const MinPart = 5 << 20

// first refuses a part 1 that is large enough only because of its header.
// What else is too small the store tells.
func first(parts []minio.CompletePart, list list) error {
	if len(parts) < 2 || parts[0].PartNumber != 1 {
		return nil
	}
	page, err := list(0, 1)
	if err != nil || len(page.ObjectParts) == 0 {
		return nil //nolint:nilerr // the upload may have become the object; Complete tells
	}
	if first := &page.ObjectParts[0]; first.PartNumber == 1 && first.ETag == parts[0].ETag && first.Size < MinPart && first.Size >= MinPart-layout.HeaderSize {
		e := refusal.New(refusal.EntityTooSmall, "Your proposed upload is smaller than the minimum allowed size")
		e.Extra = map[string]string{
			"ProposedSize": strconv.FormatInt(first.Size, 10), "MinSizeAllowed": strconv.Itoa(MinPart),
			"PartNumber": "1", "ETag": etag.Part(1, first.ETag),
		}
		return e
	}
	return nil
}

// whole holds the parts against the size of the object, if the client says
// what that should be.
func whole(parts []minio.CompletePart, h http.Header, list list) error {
	const name = "X-Amz-Mp-Object-Size"
	text := h.Get(name)
	if text == "" {
		return nil
	}
	want, err := strconv.ParseInt(text, 10, 64)
	if err != nil || want < 0 {
		return header.Invalid("x-amz-mp-object-size", text, "The x-amz-mp-object-size header is no size")
	}
	var size int64
	at := 0
	for marker := 0; at < len(parts); {
		page, err := list(marker, maxPage)
		if err != nil {
			return nil //nolint:nilerr // the upload may have become the object; Complete tells
		}
		for _, p := range page.ObjectParts {
			if at < len(parts) && p.PartNumber == parts[at].PartNumber {
				size += p.Size
				at++
			}
		}
		if !page.IsTruncated || page.NextPartNumberMarker <= marker {
			break
		}
		marker = page.NextPartNumberMarker
	}
	if at == len(parts) && size != want { // a part that is missing Complete tells of
		return refusal.New(refusal.InvalidRequest,
			"The provided 'x-amz-mp-object-size' header value %d does not match what was computed: %d", want, size)
	}
	return nil
}
