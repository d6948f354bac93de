package checksum

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/etag"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
)

const (
	first, second = "the first part, ", "and the second"

	stored = "d41d8cd98f00b204e9800998ecf8427e"
)

// partsOf are two parts that were verified by a checksum, or by none, with what a
// client says of them.
func partsOf(t minio.ChecksumType, element string, said ...string) []s3xml.Part {
	parts := make([]s3xml.Part, 2)
	for i, payload := range []string{first, second} {
		sums := map[string]string{}
		if t.IsSet() {
			sums[t.Key()] = t.EncodeToString([]byte(payload))
		}
		parts[i] = s3xml.Part{Number: i + 1, ETag: etag.Verified(i+1, stored, sums, int64(len(payload)))}
		if i < len(said) {
			parts[i].Checksums = map[string]string{element: said[i]}
		}
	}
	return parts
}

func code(err error) string {
	var e *refusal.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestParts(t *testing.T) {
	t.Parallel()
	const crc32 = minio.ChecksumCRC32
	one, two := crc32.EncodeToString([]byte(first)), crc32.EncodeToString([]byte(second))
	for name, c := range map[string]struct {
		parts []s3xml.Part
		want  string
	}{
		"right":             {partsOf(crc32, "ChecksumCRC32", one, two), ""},
		"nothing said":      {partsOf(crc32, ""), ""},
		"empty":             {partsOf(crc32, "ChecksumCRC32", "", two), ""},
		"said of one":       {partsOf(crc32, "ChecksumCRC32", one), ""},
		"swapped":           {partsOf(crc32, "ChecksumCRC32", two, one), "InvalidPart"},
		"second wrong":      {partsOf(crc32, "ChecksumCRC32", one, one), "InvalidPart"},
		"not known":         {partsOf(minio.ChecksumNone, "ChecksumCRC32", one, two), "InvalidPart"},
		"of another kind":   {partsOf(minio.ChecksumSHA256, "ChecksumCRC32", one, two), "BadDigest"},
		"no base64":         {partsOf(crc32, "ChecksumCRC32", "not base64"), "InvalidArgument"},
		"another length":    {partsOf(crc32, "ChecksumCRC32", "AAAA"), "InvalidArgument"},
		"another's length":  {partsOf(crc32, "ChecksumSHA256", one), "InvalidArgument"},
		"a newline":         {partsOf(crc32, "ChecksumCRC32", one+"\n"), "InvalidArgument"},
		"of no known kind":  {partsOf(crc32, "ChecksumXXHASH64", one), "BadDigest"},
		"unknown, not sent": {partsOf(minio.ChecksumNone, "ChecksumXXHASH64", one), "InvalidPart"},
	} {
		if err := Compare(c.parts, nil); code(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	both := partsOf(crc32, "ChecksumCRC32", one)
	both[0].Checksums["ChecksumSHA1"] = minio.ChecksumSHA1.EncodeToString([]byte(first))
	if err := Compare(both, nil); code(err) != "InvalidArgument" {
		t.Errorf("two of a part: %v", err)
	}
}

// The checksum of an object is that of its bytes, or that of its parts' checksums.
func TestWhole(t *testing.T) {
	t.Parallel()
	for _, kind := range []minio.ChecksumType{minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumCRC64NVME, minio.ChecksumSHA1, minio.ChecksumSHA256} {
		full := kind.EncodeToString([]byte(first + second))
		wrong := kind.EncodeToString([]byte(second + first))
		sums := kind.Hasher()
		for _, payload := range []string{first, second} {
			h := kind.Hasher()
			h.Write([]byte(payload))
			sums.Write(h.Sum(nil))
		}
		ofSums := minio.NewChecksum(kind, sums.Sum(nil)).Encoded()
		merges, composes := kind.CanMergeCRC(), kind.CanComposite()
		for _, c := range []struct {
			value, kind, want string
			can               bool
		}{
			{full, fullObject, "", merges},
			{full, "", "", merges},
			{ofSums, composite, "", composes},
			{ofSums, "", "", composes},
			{ofSums + "-2", composite, "", composes},
			{ofSums + "-2", "", "", composes},
			{wrong, "", "BadDigest", true},
			{wrong, fullObject, "BadDigest", merges},
			{wrong + "-2", composite, "BadDigest", composes},
			{full, composite, "BadDigest", composes},
			{ofSums, fullObject, "BadDigest", merges},
			{ofSums + "-3", "", "BadDigest", composes},
			{ofSums + "-x", "", "InvalidRequest", true},
			{ofSums + "-0", "", "InvalidRequest", true},
			{ofSums + "-", "", "InvalidRequest", true},
			{ofSums + "-2", fullObject, "InvalidRequest", true},
			{"AA==", "", "InvalidRequest", true},
			{ofSums, "HALF_OBJECT", "InvalidRequest", true},
		} {
			h := http.Header{}
			h.Set(kind.Key(), c.value)
			if c.kind != "" {
				h.Set(typeHeader, c.kind)
			}
			if !c.can {
				c.want = "InvalidRequest"
				if c.kind == "" { // it is taken for the other type
					c.want = "BadDigest"
				}
			}
			if strings.HasSuffix(c.value, "-2") || strings.HasSuffix(c.value, "-3") {
				if !composes {
					c.want = "InvalidRequest"
				}
			}
			if err := Compare(partsOf(kind, ""), h); code(err) != c.want {
				t.Errorf("%s %s of type %q: %v, want %q", kind, c.value, c.kind, err, c.want)
			}
		}
	}
}

func TestWholeRefused(t *testing.T) {
	t.Parallel()
	sum := minio.ChecksumCRC32.EncodeToString([]byte(first + second))
	with := func(fields ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(fields); i += 2 {
			h.Add(fields[i], fields[i+1])
		}
		return h
	}
	mixed := partsOf(minio.ChecksumCRC32, "")
	mixed[1].ETag = stored // as in a list of parts
	for name, c := range map[string]struct {
		parts []s3xml.Part
		h     http.Header
		want  string
	}{
		"none of any part":     {partsOf(minio.ChecksumNone, ""), with("x-amz-checksum-crc32", sum), "InvalidRequest"},
		"none of one":          {mixed, with("x-amz-checksum-crc32", sum), "InvalidRequest"},
		"parts of another":     {partsOf(minio.ChecksumSHA1, ""), with("x-amz-checksum-crc32", sum), "InvalidRequest"},
		"two":                  {partsOf(minio.ChecksumCRC32, ""), with("x-amz-checksum-crc32", sum, "x-amz-checksum-crc32c", sum), "InvalidRequest"},
		"two of one":           {partsOf(minio.ChecksumCRC32, ""), with("x-amz-checksum-crc32", sum, "x-amz-checksum-crc32", sum), "InvalidRequest"},
		"not known":            {partsOf(minio.ChecksumCRC32, ""), with("x-amz-checksum-sha512", sum), "NotImplemented"},
		"empty":                {partsOf(minio.ChecksumCRC32, ""), with("x-amz-checksum-crc32", ""), "InvalidRequest"},
		"the type alone":       {partsOf(minio.ChecksumNone, ""), with("x-amz-checksum-type", "COMPOSITE"), ""},
		"the algorithm alone":  {partsOf(minio.ChecksumNone, ""), with("x-amz-checksum-algorithm", "CRC32"), ""},
		"nothing is said":      {mixed, with("Content-Type", "text/xml"), ""},
		"a size that is wrong": {resized(), with("x-amz-checksum-crc32", sum, "x-amz-checksum-type", "FULL_OBJECT"), "BadDigest"},
	} {
		if err := Compare(c.parts, c.h); code(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// resized is a part that is longer than its ETag says: CRCs are merged by lengths.
func resized() []s3xml.Part {
	parts := partsOf(minio.ChecksumCRC32, "")
	parts[1].ETag = etag.Verified(2, stored, map[string]string{minio.ChecksumCRC32.Key(): minio.ChecksumCRC32.EncodeToString([]byte(second))}, 1)
	return parts
}
