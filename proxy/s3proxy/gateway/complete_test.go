package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func TestCompleteReplyLost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	for _, key := range []string{"settled", "repeated"} {
		id := create(t, first, key, number(1))
		part := upload(t, first, key, id, 1, "payload", number(1))
		s.link.DropReply(s3link.Op(s3link.CompleteMultipartUpload), 1)
		info, err := complete(t, first, key, id, []minio.CompletePart{part}, number(1))
		if err != nil { // the store settles it by the nonce
			t.Fatalf("%s: %v", key, err)
		}
		again, err := complete(t, second, key, id, []minio.CompletePart{part}, number(1))
		if err != nil || again.ETag != info.ETag {
			t.Errorf("%s again: %+v, %v, want %s", key, again, err, info.ETag)
		}
		second.holds(t, key, "payload", number(1))
	}
	// When it is overwritten, the upload is no more.
	id := create(t, first, "k", number(1))
	part := upload(t, first, "k", id, 1, "payload", number(1))
	if _, err := complete(t, first, "k", id, []minio.CompletePart{part}, number(1)); err != nil {
		t.Fatal(err)
	}
	first.put(t, "k", "other", number(1))
	if _, err := complete(t, second, "k", id, []minio.CompletePart{part}, number(1)); err == nil {
		t.Error("an upload that is gone was completed")
	}
	second.holds(t, "k", "other", number(1))
}

// A Complete that is still in the network when its client has gone is repeated
// through the other proxy, which wins; or finds that the first has.
func TestCompleteLate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	for i, deliverFirst := range []bool{true, false} {
		key, before, after := fmt.Sprint(i), number(int64(2*i+1)), number(int64(2*i+2))
		first.put(t, key, "old", before)
		id := create(t, first, key, before)
		parts := []minio.CompletePart{upload(t, first, key, id, 1, "payload", before)}
		held := s.link.Hold(s3link.Op(s3link.CompleteMultipartUpload), 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		core := first.client(t, before)
		go func() {
			_, err := core.CompleteMultipartUpload(ctx, s.bucket, key, id, parts, minio.PutObjectOptions{})
			gone <- err
		}()
		<-held.Taken()
		cancel()
		if err := <-gone; err == nil {
			t.Error("a Complete that is held was acknowledged")
		}
		deliver := func() { // versitygw says 200 of any upload that is gone
			if _, _, err := held.Deliver(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if deliverFirst {
			deliver()
		}
		if _, err := complete(t, second, key, id, parts, before); err != nil {
			t.Errorf("repeated: %v", err)
		}
		second.holds(t, key, "payload", before)
		second.put(t, key, "next", after)
		deliver()
		second.holds(t, key, "next", after)
	}
}

// A 200 that holds an error is one.
func TestCompleteErrorIn200(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	id := create(t, p, "k", number(1))
	part := upload(t, p, "k", id, 1, "payload", number(1))
	for n := range 8 { // as often as the store asks again
		s.link.Answer(s3link.Op(s3link.CompleteMultipartUpload), n+1, http.StatusOK, "InternalError")
	}
	a := p.do(t, http.MethodPost, "/k?uploadId="+url.QueryEscape(id), completeBody(part), nil, number(1))
	if a.status < 500 || a.code() == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	p.holds(t, "k", "", number(1))
}

func TestCompleteArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	etag := p.put(t, "k", "old", number(1))
	id := create(t, p, "k", number(1))
	query := "/k?uploadId=" + url.QueryEscape(id)
	one, two := upload(t, p, "k", id, 1, "small", number(1)), upload(t, p, "k", id, 2, "too", number(1))
	wrong := minio.CompletePart{PartNumber: 1, ETag: strings.Repeat("0", 32)}
	for what, row := range map[string]struct {
		body   string
		header map[string]string
		status int
		code   string
	}{
		"order":           {completeBody(two, one), nil, http.StatusBadRequest, "InvalidPartOrder"},
		"twice":           {completeBody(one, one), nil, http.StatusBadRequest, "InvalidPartOrder"},
		"no part 1":       {completeBody(two), nil, http.StatusNotImplemented, "FenceUnsupported"},
		"wrong ETag":      {completeBody(wrong), nil, http.StatusBadRequest, "InvalidPart"},
		"too small":       {completeBody(one, two), nil, http.StatusBadRequest, "EntityTooSmall"},
		"not there":       {completeBody(one, minio.CompletePart{PartNumber: 7, ETag: "e"}), nil, http.StatusBadRequest, "InvalidPart"},
		"no parts":        {"<CompleteMultipartUpload/>", nil, http.StatusBadRequest, "MalformedXML"},
		"size":            {completeBody(one), map[string]string{"X-Amz-Mp-Object-Size": "6"}, http.StatusBadRequest, "InvalidRequest"},
		"If-None-Match":   {completeBody(one), map[string]string{"If-None-Match": "*"}, http.StatusPreconditionFailed, "PreconditionFailed"},
		"older If-Match":  {completeBody(one), map[string]string{"If-Match": `"0-0"`}, http.StatusPreconditionFailed, "PreconditionFailed"},
		"bad Content-MD5": {completeBody(one), map[string]string{"Content-Md5": md5Of("")}, http.StatusBadRequest, "BadDigest"},
		"unknown sum":     {completeBody(one), map[string]string{"X-Amz-Checksum-Crc64nvme": "AAAAAAAAAAA=", "X-Amz-Checksum-Type": "FULL_OBJECT"}, http.StatusBadRequest, "InvalidRequest"},
	} {
		p.do(t, http.MethodPost, query, row.body, row.header, number(1)).expect(t, what, row.status, row.code)
		p.holds(t, "k", "old", number(1))
	}
	p.do(t, http.MethodPost, query, completeBody(one), map[string]string{
		"If-Match": `"` + etag + `"`, "X-Amz-Mp-Object-Size": "5", "X-Amz-Checksum-Type": "FULL_OBJECT",
	}, number(1)).expect(t, "right", http.StatusOK, "")
	p.holds(t, "k", "small", number(1))
}

// A Complete that the proxy sends twice, since the first answer was lost, may have been
// carried out at first, and overwritten: that the second finds no upload does not say
// that it was not (I2).
func TestCompleteCarriedOutAndOverwritten(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	past, err := s3store.New(s.server.Client(t), s3store.Config{Bucket: s.bucket}) // past the link
	if err != nil {
		t.Fatal(err)
	}
	id := create(t, p, "k", number(1))
	part := upload(t, p, "k", id, 1, "new", number(1))
	held := s.link.Hold(s3link.Op(s3link.CompleteMultipartUpload), 1)
	sent := 0
	second := func(r s3link.Request) bool {
		if r.Op != s3link.CompleteMultipartUpload {
			return false
		}
		if sent++; sent == 1 {
			return false
		}
		if status, _, err := held.Deliver(t.Context()); err != nil || status != http.StatusOK { // the first arrives before it
			t.Errorf("the first: %d, %v", status, err)
		}
		if _, err := past.Put(t.Context(), number(1), "k", strings.NewReader("next"), 4, s3store.PutOptions{}); err != nil {
			t.Error(err)
		}
		return true
	}
	s.link.Answer(second, 1, http.StatusNotFound, "NoSuchUpload") // as S3 answers then
	go func() {
		<-held.Taken()
		held.Abandon()
	}()
	_, err = complete(t, p, "k", id, []minio.CompletePart{part}, number(1))
	if r := minio.ToErrorResponse(err); r.StatusCode != http.StatusInternalServerError || sent < 2 {
		t.Errorf("sent %d times: %v (%d)", sent, err, r.StatusCode)
	}
	if got, err := read(t.Context(), p.client(t, number(1)), p.bucket, "k"); got != "next" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
