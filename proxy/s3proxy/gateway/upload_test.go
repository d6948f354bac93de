package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
)

const mib = 1 << 20

// partOf is a payload that no other part has.
func partOf(number, size int) string {
	return strings.Repeat(fmt.Sprintf("%07d\n", number), size/8+1)[:size]
}

func create(t *testing.T, p place, key string, token guard.Token) string {
	t.Helper()
	id, err := p.client(t, token).NewMultipartUpload(t.Context(), p.bucket, key, minio.PutObjectOptions{
		ContentType: "text/plain", UserMetadata: map[string]string{"color": "red"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func upload(t *testing.T, p place, key, id string, number int, data string, tokens ...guard.Token) minio.CompletePart {
	t.Helper()
	part, err := p.client(t, tokens...).PutObjectPart(t.Context(), p.bucket, key, id, number, strings.NewReader(data), int64(len(data)), minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatalf("part %d: %v", number, err)
	}
	return minio.CompletePart{PartNumber: number, ETag: part.ETag}
}

func complete(t *testing.T, p place, key, id string, parts []minio.CompletePart, tokens ...guard.Token) (minio.UploadInfo, error) {
	t.Helper()
	return p.client(t, tokens...).CompleteMultipartUpload(t.Context(), p.bucket, key, id, parts, minio.PutObjectOptions{})
}

// completeBody is the XML of a Complete.
func completeBody(parts ...minio.CompletePart) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "<Part><ETag>&quot;%s&quot;</ETag><PartNumber>%d</PartNumber></Part>", p.ETag, p.PartNumber)
	}
	return "<CompleteMultipartUpload>" + b.String() + "</CompleteMultipartUpload>"
}

// Parts are split between two proxies, part 1 comes last and one is uploaded
// again; the other proxy completes.
func TestUploadThroughTwoProxies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	one, two, three := partOf(1, 5*mib), partOf(2, 5*mib+7), partOf(3, 100)
	const key = "dir/a b+c"
	id := create(t, first, key, number(1))
	parts := make([]minio.CompletePart, 3)
	parts[2] = upload(t, first, key, id, 3, three, number(1))
	parts[1] = upload(t, second, key, id, 2, partOf(9, 5*mib), number(1))
	again := upload(t, first, key, id, 2, two, number(1))
	parts[0] = upload(t, second, key, id, 1, one, number(1))
	if again.ETag == parts[1].ETag {
		t.Error("another part has the same ETag")
	}
	if !strings.HasSuffix(parts[0].ETag, "-0") || strings.Contains(again.ETag, "-") {
		t.Errorf("ETags: part 1 %s, part 2 %s", parts[0].ETag, again.ETag)
	}
	listed, err := first.client(t, number(1)).ListObjectParts(t.Context(), s.bucket, key, id, 0, 10)
	if err != nil || len(listed.ObjectParts) != 3 {
		t.Fatalf("%+v, %v", listed, err)
	}
	for i, want := range []string{one, two, three} {
		if p := listed.ObjectParts[i]; p.Size != int64(len(want)) || p.PartNumber != i+1 {
			t.Errorf("part %d: %+v, want %d bytes", i+1, p, len(want))
		}
	}
	if strings.Trim(listed.ObjectParts[0].ETag, `"`) != parts[0].ETag {
		t.Errorf("ETag of part 1: %s, was %s", listed.ObjectParts[0].ETag, parts[0].ETag)
	}
	// The part that was overwritten is not there any more.
	_, err = complete(t, second, key, id, parts, number(1))
	refusedWith(t, "the older part 2", err, "InvalidPart")
	parts[1] = again
	info, err := complete(t, second, key, id, parts, number(1))
	if err != nil || !strings.HasSuffix(info.ETag, "-3") || !strings.HasSuffix(info.Location, "/"+s.bucket+"/dir/a%20b+c") {
		t.Fatalf("%+v, %v", info, err)
	}
	for _, p := range []place{first, second} {
		p.holds(t, key, one+two+three, number(1))
		head, err := p.client(t, number(1)).StatObject(t.Context(), s.bucket, key, minio.StatObjectOptions{})
		if err != nil || head.ETag != info.ETag || head.Size != int64(len(one+two+three)) || head.ContentType != "text/plain" || head.UserMetadata["Color"] != "red" {
			t.Errorf("%+v, %v", head, err)
		}
	}
}

func TestUploadTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	first.put(t, "k", "old", number(2))
	id := create(t, first, "k", number(2))
	part := upload(t, first, "k", id, 1, "payload", number(2))
	query := "?uploadId=" + url.QueryEscape(id)
	other := number(2)
	other.Holder = "other"
	for _, p := range []place{first, second} {
		for what, row := range map[string]struct {
			token  guard.Token
			status int
			code   string
		}{
			"stale":              {number(1), http.StatusPreconditionFailed, "FenceTokenStale"},
			"another's":          {other, http.StatusPreconditionFailed, "FenceTokenDuplicate"},
			"another resource's": {tokenOf("items", 9), http.StatusForbidden, "FenceTokenMissing"},
		} {
			p.do(t, http.MethodPost, "/k"+query, completeBody(part), nil, row.token).expect(t, "complete, "+what, row.status, row.code)
			p.do(t, http.MethodPut, "/k"+query+"&partNumber=2", "x", nil, row.token).expect(t, "part, "+what, row.status, row.code)
			p.do(t, http.MethodDelete, "/k"+query, "", nil, row.token).expect(t, "abort, "+what, row.status, row.code)
			p.do(t, http.MethodPut, "/k"+query+"&partNumber=2", "", map[string]string{"X-Amz-Copy-Source": "/" + s.bucket + "/k"}, row.token).
				expect(t, "copy part, "+what, row.status, row.code)
		}
		p.do(t, http.MethodPost, "/k"+query, completeBody(part), nil).expect(t, "complete, no token", http.StatusForbidden, "FenceTokenMissing")
		p.do(t, http.MethodPost, "/k?uploads", "", nil, number(1)).expect(t, "create, stale", http.StatusPreconditionFailed, "FenceTokenStale")
	}
	first.holds(t, "k", "old", number(2))
	// A newer holder may end it, not go on with it.
	second.do(t, http.MethodPost, "/k"+query, completeBody(part), nil, number(3)).
		expect(t, "complete, newer", http.StatusForbidden, "FenceTokenMissing")
	if err := second.client(t, number(3)).AbortMultipartUpload(t.Context(), s.bucket, "k", id); err != nil {
		t.Fatal(err)
	}
	first.do(t, http.MethodPost, "/k"+query, completeBody(part), nil, number(2)).
		expect(t, "complete, aborted", http.StatusNotFound, "NoSuchUpload")
	second.holds(t, "k", "old", number(3))
}

// Ids are made by the proxies, and good for their key and bucket only.
func TestUploadIDs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	id := create(t, p, "k", number(1))
	upload(t, p, "k", id, 1, "payload", number(1))
	bare, err := s.server.Client(t).ListBuckets(t.Context())
	if err != nil || len(bare) == 0 {
		t.Fatal(err)
	}
	flipped := []byte(id)
	flipped[len(flipped)/2] ^= 1
	for what, at := range map[string]string{
		"another key": "/other?uploadId=" + url.QueryEscape(id), "flipped": "/k?uploadId=" + url.QueryEscape(string(flipped)),
		"none": "/k?uploadId=", "invented": "/k?uploadId=abc",
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			p.do(t, method, at, "", nil, number(1)).expect(t, method+" "+what, http.StatusNotFound, "NoSuchUpload")
		}
		p.do(t, http.MethodPut, at+"&partNumber=1", "x", nil, number(1)).expect(t, "part, "+what, http.StatusNotFound, "NoSuchUpload")
		p.do(t, http.MethodPost, at, completeBody(minio.CompletePart{PartNumber: 1, ETag: "e"}), nil, number(1)).
			expect(t, "complete, "+what, http.StatusNotFound, "NoSuchUpload")
	}
}

// A part whose bytes are not what the client says is not stored.
func TestPartVerified(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	id := create(t, p, "k", number(1))
	good := partOf(1, 2*mib)
	at := "/k?partNumber=1&uploadId=" + url.QueryEscape(id)
	for what, row := range map[string]struct {
		header map[string]string
		sum    string
		code   string
	}{
		"Content-MD5": {map[string]string{"Content-Md5": md5Of("x")}, hexOf(good), "BadDigest"},
		"checksum":    {map[string]string{"X-Amz-Checksum-Crc32": "AAAAAA=="}, hexOf(good), "BadDigest"},
		"hash":        {nil, hexOf("x"), "XAmzContentSHA256Mismatch"},
	} {
		p.send(t, http.MethodPut, at, strings.NewReader(good), int64(len(good)), row.sum, row.header, number(1)).
			expect(t, what, http.StatusBadRequest, row.code)
		listed, err := p.client(t, number(1)).ListObjectParts(t.Context(), s.bucket, "k", id, 0, 10)
		if err != nil || len(listed.ObjectParts) != 0 {
			t.Errorf("%s: %+v, %v", what, listed.ObjectParts, err)
		}
	}
	for _, n := range []string{"0", "10001", "-1", "x", ""} {
		p.do(t, http.MethodPut, "/k?partNumber="+n+"&uploadId="+url.QueryEscape(id), "x", nil, number(1)).
			expect(t, "part "+n, http.StatusBadRequest, "InvalidArgument")
	}
	a := p.send(t, http.MethodPut, at, strings.NewReader(good), int64(len(good)), hexOf(good), map[string]string{"Content-Md5": md5Of(good)}, number(1))
	a.expect(t, "right", http.StatusOK, "")
}

// A client that asks before it sends a part is told at once that it is stale.
func TestPartStaleBeforeBody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	id := create(t, first, "k", number(1))
	second.put(t, "other", "x", number(2)) // which the first does not know
	sent := &counted{r: bytes.NewReader(make([]byte, 64*mib))}
	a := first.send(t, http.MethodPut, "/k?partNumber=2&uploadId="+url.QueryEscape(id), sent, 64*mib, "UNSIGNED-PAYLOAD",
		map[string]string{"Expect": "100-continue"}, number(1))
	a.expect(t, "stale part", http.StatusPreconditionFailed, "FenceTokenStale")
	if sent.n > 0 {
		t.Errorf("%d bytes were sent", sent.n)
	}
}

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
