// Package checksum holds what a client says of checksums when it completes an
// upload against those that its parts were verified by.
//
// Whatever is said is compared or refused, never passed over: whoever is answered
// 200 has named the parts that it meant.
package checksum

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
)

const (
	prefix     = "X-Amz-Checksum-"
	typeHeader = prefix + "Type"

	composite  = "COMPOSITE"
	fullObject = "FULL_OBJECT"
)

// Compare compares the checksums of the parts, and that of the object in the
// header, with what the parts' ETags tell. What is wrong of them is a
// *refusal.Error, as S3 answers it. Parts are as the client names them.
func Compare(parts []s3xml.Part, h http.Header) error {
	for i := range parts {
		if err := part(&parts[i]); err != nil {
			return err
		}
	}
	return whole(parts, h)
}

// part compares what is said of one part.
func part(p *s3xml.Part) error {
	said := make([]string, 0, 1)
	for element, value := range p.Checksums {
		if value != "" {
			said = append(said, element)
		}
	}
	if len(said) == 0 {
		return nil
	}
	value := p.Checksums[said[0]]
	name := strings.TrimPrefix(said[0], "Checksum")
	t, known := etag.TypeOf(name)
	if len(said) > 1 || known && decode(t, value) == nil {
		return header.Invalid("PartNumber", strconv.Itoa(p.Number), "Invalid Base64 or multiple checksums present in request")
	}
	_, sum, told := etag.NamedPart(p.Number, p.ETag)
	switch {
	case !told:
		return invalidPart(p, "No checksum of this part is known: name the ETag that the upload of the part was answered with, or no checksum.")
	case sum.Type != t:
		return refusal.New(refusal.BadDigest, "The %s you specified for part %d did not match what we received: it was sent with its %s.",
			strings.ToLower(name), p.Number, strings.ToLower(sum.Type.String()))
	case sum.Value != value:
		return invalidPart(p, "Its "+strings.ToLower(name)+" is another.")
	}
	return nil
}

func invalidPart(p *s3xml.Part, why string) error {
	e := refusal.New(refusal.InvalidPart, "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag. %s", why)
	e.Extra = map[string]string{"PartNumber": strconv.Itoa(p.Number), "ETag": p.ETag}
	return e
}

// whole compares what is said of the object.
func whole(parts []s3xml.Part, h http.Header) error {
	kind := h.Get(typeHeader)
	if kind != "" && kind != composite && kind != fullObject {
		return refusal.New(refusal.InvalidRequest, "Value for x-amz-checksum-type header is invalid.")
	}
	var said []string
	for name := range h {
		if rest, found := strings.CutPrefix(name, prefix); found && !slices.Contains([]string{"Type", "Algorithm", "Mode"}, rest) {
			said = append(said, name)
		}
	}
	switch {
	case len(said) == 0:
		return nil
	case len(said) > 1 || len(h[said[0]]) > 1:
		return refusal.New(refusal.InvalidRequest, "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
	}
	name, value := strings.ToLower(said[0]), h.Get(said[0])
	t, known := etag.TypeOf(strings.ToUpper(strings.TrimPrefix(said[0], prefix)))
	if !known {
		return refusal.New(refusal.NotImplemented, "%s is not supported", name)
	}
	value, count, counted := strings.Cut(value, "-")
	if n, err := strconv.ParseUint(count, 10, 31); decode(t, value) == nil || counted && (err != nil || n == 0) {
		return refusal.New(refusal.InvalidRequest, "Value for %s header is invalid.", name)
	}
	ofParts := t.CanComposite() && kind != fullObject
	ofWhole := t.CanMergeCRC() && kind != composite && !counted
	if !ofParts && !ofWhole {
		return refusal.New(refusal.InvalidRequest, "The %s checksum of an upload in parts cannot be of the type that you specified.", strings.ToLower(t.String()))
	}
	sums, err := sumsOf(parts, t)
	if err != nil {
		return err
	}
	if ofParts && (!counted || count == strconv.Itoa(len(parts))) && is(value)(t.CompositeChecksum(sums)) ||
		ofWhole && is(value)(t.FullObjectChecksum(sums)) {
		return nil
	}
	return refusal.New(refusal.BadDigest, "The %s you specified did not match the calculated checksum.", strings.ToLower(t.String()))
}

// sumsOf are the parts with their checksums of this type.
func sumsOf(parts []s3xml.Part, t minio.ChecksumType) ([]minio.ObjectPart, error) {
	sums := make([]minio.ObjectPart, len(parts))
	for i, p := range parts {
		_, sum, told := etag.NamedPart(p.Number, p.ETag)
		if !told || sum.Type != t {
			return nil, refusal.New(refusal.InvalidRequest,
				"The %[1]s of the object cannot be compared: no %[1]s of part %[2]d is known. Send each part with it and name the ETags that these were answered with, or specify none.",
				strings.ToLower(t.String()), p.Number)
		}
		s := &sums[i]
		s.PartNumber, s.Size = p.Number, sum.Size
		switch t {
		case minio.ChecksumCRC32:
			s.ChecksumCRC32 = sum.Value
		case minio.ChecksumCRC32C:
			s.ChecksumCRC32C = sum.Value
		case minio.ChecksumCRC64NVME:
			s.ChecksumCRC64NVME = sum.Value
		case minio.ChecksumSHA1:
			s.ChecksumSHA1 = sum.Value
		default:
			s.ChecksumSHA256 = sum.Value
		}
	}
	return sums, nil
}

func is(value string) func(*minio.Checksum, error) bool {
	return func(c *minio.Checksum, err error) bool { return err == nil && c.Encoded() == value }
}

// decode returns a checksum that is written as S3 writes it, or nil.
func decode(t minio.ChecksumType, value string) []byte {
	sum, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || len(sum) != t.RawByteLen() || strings.ContainsAny(value, "\r\n") {
		return nil
	}
	return sum
}
