package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// completed is a part of a Complete with what its client says of its checksum.
func completed(number int, etag, element, sum string) string {
	if sum != "" {
		sum = fmt.Sprintf("<%[1]s>%[2]s</%[1]s>", element, sum)
	}
	return fmt.Sprintf("<Part><ETag>%s</ETag>%s<PartNumber>%d</PartNumber></Part>", etag, sum, number)
}

func completion(parts ...string) string {
	return "<CompleteMultipartUpload>" + strings.Join(parts, "") + "</CompleteMultipartUpload>"
}

// What a client says of checksums when it completes an upload is held against what
// its parts were verified by, whichever proxies they came through. What is wrong
// changes nothing, and the upload can be completed yet.
func TestCompleteChecksums(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	values := []string{partOf(1, 5*mib), partOf(2, 1000)}
	for _, kind := range []minio.ChecksumType{minio.ChecksumCRC32, minio.ChecksumCRC64NVME, minio.ChecksumSHA256} {
		key, element, name := "k"+kind.String(), "Checksum"+kind.String(), kind.Key()
		id := create(t, first, key, number(1))
		etags, sums, hash := make([]string, 2), make([]string, 2), kind.Hasher()
		for i, p := range []place{second, first} {
			sums[i] = kind.EncodeToString([]byte(values[i]))
			res := p.do(t, http.MethodPut, fmt.Sprintf("/%s?partNumber=%d&uploadId=%s", key, i+1, id), values[i], map[string]string{name: sums[i]}, number(1))
			if res.expect(t, "part", http.StatusOK, ""); res.header.Get(name) != sums[i] {
				t.Errorf("checksum of the part: %q", res.header.Get(name))
			}
			etags[i] = res.header.Get("ETag")
			h := kind.Hasher()
			h.Write([]byte(values[i]))
			hash.Write(h.Sum(nil))
		}
		whole := kind.EncodeToString([]byte(values[0] + values[1]))
		if !kind.CanMergeCRC() {
			whole = minio.NewChecksum(kind, hash.Sum(nil)).Encoded() + "-2"
		}
		size := strconv.Itoa(len(values[0]) + len(values[1]))
		right := completion(completed(1, etags[0], element, sums[0]), completed(2, etags[1], element, sums[1]))
		finish := func(p place, body string, fields ...string) answered {
			h := map[string]string{}
			for i := 0; i < len(fields); i += 2 {
				h[fields[i]] = fields[i+1]
			}
			return p.do(t, http.MethodPost, "/"+key+"?uploadId="+id, body, h, number(1))
		}
		swapped := completion(completed(1, etags[0], element, sums[1]), completed(2, etags[1], element, sums[0]))
		finish(first, swapped).expect(t, "parts' checksums", http.StatusBadRequest, "InvalidPart")
		finish(first, right, name, sums[0]).expect(t, "checksum of the object", http.StatusBadRequest, "BadDigest")
		finish(second, right, "x-amz-mp-object-size", "7").expect(t, "size of the object", http.StatusBadRequest, "InvalidRequest")
		first.holds(t, key, "", number(1))
		finish(second, right, name, whole, "x-amz-mp-object-size", size).expect(t, "complete", http.StatusOK, "")
		finish(first, right, name, whole).expect(t, "once more", http.StatusOK, "")
		finish(first, right, name, sums[0]).expect(t, "once more, and wrong", http.StatusBadRequest, "BadDigest")
		second.holds(t, key, values[0]+values[1], number(1))
	}
}

// A list of parts tells no checksum of those that came through another process: an
// upload that is gone on with by it can be completed, but nothing said of checksums.
func TestCompleteByList(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	another, p := s.proxy(t), s.proxy(t)
	id := create(t, p, "k", number(1))
	sum := minio.ChecksumCRC32.EncodeToString([]byte("payload"))
	res := another.do(t, http.MethodPut, "/k?partNumber=1&uploadId="+id, "payload", map[string]string{"x-amz-checksum-crc32": sum}, number(1))
	res.expect(t, "part", http.StatusOK, "")
	listed, err := another.client(t, number(1)).ListObjectParts(t.Context(), s.bucket, "k", id, 0, 10)
	if err != nil || len(listed.ObjectParts) != 1 || listed.ObjectParts[0].ETag != res.header.Get("ETag") {
		t.Fatalf("%+v, %v, want %s", listed, err, res.header.Get("ETag"))
	}
	listed, err = p.client(t, number(1)).ListObjectParts(t.Context(), s.bucket, "k", id, 0, 10)
	if err != nil || len(listed.ObjectParts) != 1 {
		t.Fatalf("%+v, %v", listed, err)
	}
	etag := listed.ObjectParts[0].ETag
	path := "/k?uploadId=" + id
	p.do(t, http.MethodPost, path, completion(completed(1, etag, "ChecksumCRC32", sum)), nil, number(1)).expect(t, "a checksum", http.StatusBadRequest, "InvalidPart")
	p.do(t, http.MethodPost, path, completion(completed(1, etag, "", "")), map[string]string{"x-amz-checksum-crc32": sum}, number(1)).
		expect(t, "one of the object", http.StatusBadRequest, "InvalidRequest")
	p.do(t, http.MethodPost, path, completion(completed(1, etag, "", "")), nil, number(1)).expect(t, "none", http.StatusOK, "")
	p.holds(t, "k", "payload", number(1))
}

// minio-go computes the checksum of each part and of the object by itself.
func TestUploadWithChecksums(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	value := partOf(1, 6*mib)
	core := p.client(t, number(1))
	for _, kind := range []minio.ChecksumType{
		minio.ChecksumCRC32C, minio.ChecksumSHA1, minio.ChecksumCRC64NVME, minio.ChecksumFullObjectCRC32, minio.ChecksumFullObjectCRC32C,
	} {
		// The size is not told: it is uploaded in parts, however many there are.
		_, err := core.Client.PutObject(t.Context(), s.bucket, "k", bytes.NewBufferString(value), -1, minio.PutObjectOptions{PartSize: 5 * mib, AutoChecksum: kind})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		p.holds(t, "k", value, number(1))
	}
}
