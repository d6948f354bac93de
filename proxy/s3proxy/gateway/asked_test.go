package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway/internal/measure"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// An upload that is gone is told to be, as by S3.
func TestAbortOfWhatIsGone(t *testing.T) {
	t.Parallel()
	p := newSite(t).proxy(t)
	id := create(t, p, "k", number(1))
	upload(t, p, "k", id, 1, "v", number(1))
	at := "/k?uploadId=" + id
	p.do(t, http.MethodDelete, at, "", nil, number(1)).expect(t, "abort", http.StatusNoContent, "")
	p.do(t, http.MethodDelete, at, "", nil, number(1)).expect(t, "abort again", http.StatusNotFound, "NoSuchUpload")
	id = create(t, p, "k", number(1))
	if _, err := complete(t, p, "k", id, []minio.CompletePart{upload(t, p, "k", id, 1, "v", number(1))}, number(1)); err != nil {
		t.Fatal(err)
	}
	p.do(t, http.MethodDelete, "/k?uploadId="+id, "", nil, number(1)).expect(t, "abort of what is complete", http.StatusNotFound, "NoSuchUpload")
	p.holds(t, "k", "v")
}

// The header in front of part 1 does not make it large enough.
func TestFirstPartTooSmall(t *testing.T) {
	t.Parallel()
	p := newSite(t).proxy(t)
	for size, code := range map[int]string{measure.MinPart - layout.HeaderSize - 1: "EntityTooSmall", measure.MinPart - 1: "EntityTooSmall", measure.MinPart: ""} {
		id := create(t, p, "k", number(1))
		one, two := upload(t, p, "k", id, 1, partOf(1, size), number(1)), upload(t, p, "k", id, 2, "end", number(1))
		status := http.StatusOK
		if code != "" {
			status = http.StatusBadRequest
		}
		p.do(t, http.MethodPost, "/k?uploadId="+id, completeBody(one, two), nil, number(1)).expect(t, "complete", status, code)
		if code == "" {
			continue
		}
		p.do(t, http.MethodPost, "/k?uploadId="+id, completeBody(one), nil, number(1)).expect(t, "alone", http.StatusOK, "")
		p.holds(t, "k", partOf(1, size))
	}
}

// Whose a bucket is, as far as the proxy tells: the client's. The store's own owners
// are nobody's business.
func TestOwners(t *testing.T) {
	t.Parallel()
	p := newSite(t).proxy(t)
	p.put(t, "k", "v", number(1))
	upload(t, p, "u", create(t, p, "u", number(1)), 1, "v", number(1))
	for _, path := range []string{"", "?list-type=2&fetch-owner=true"} {
		a := p.do(t, http.MethodGet, path, "", nil, number(1))
		if !strings.Contains(a.body, "<Owner><ID>"+testKey+"</ID>") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	for name, header := range map[string]string{"bucket": "x-amz-expected-bucket-owner", "source": "x-amz-source-expected-bucket-owner"} {
		for owner, status := range map[string]int{testKey: http.StatusOK, "111122223333": http.StatusForbidden} {
			with := map[string]string{"X-Amz-Copy-Source": p.bucket + "/k", header: owner}
			a := p.do(t, http.MethodPut, "/copy", "", with, number(1))
			if a.status != status || status != http.StatusOK && a.code() != "AccessDenied" {
				t.Errorf("%s %s: %d %s", name, owner, a.status, a.body)
			}
		}
	}
	p.do(t, http.MethodGet, "/k", "", map[string]string{"x-amz-expected-bucket-owner": "111122223333"}).expect(t, "read", http.StatusForbidden, "AccessDenied")
}
