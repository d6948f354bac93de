package gateway

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// What a holder has seen of a key is what its client was told, and nothing else: that the
// proxy looked at it for another purpose does not make the next blind write overwrite in
// silence what an older holder's late write put there (I9).
func TestLooksThatTellNothing(t *testing.T) {
	t.Parallel()
	simple := func(method, path string, header map[string]string, status int) func(*testing.T, place) {
		return func(t *testing.T, p place) {
			if a := p.do(t, method, path, "", header, number(2)); a.status != status {
				t.Errorf("%d %s, want %d", a.status, a.body, status)
			}
		}
	}
	for what, between := range map[string]func(*testing.T, place){
		"nothing": func(*testing.T, place) {},
		"copied from": func(t *testing.T, p place) {
			copies(t, p, p.bucket+"/k", "elsewhere", nil, number(2)).expect(t, "copy", http.StatusOK, "")
		},
		"copied from into a part": func(t *testing.T, p place) {
			id := create(t, p, "elsewhere", number(2))
			copies(t, p, p.bucket+"/k", "elsewhere?partNumber=1&uploadId="+url.QueryEscape(id), nil, number(2)).expect(t, "copy", http.StatusOK, "")
		},
		"tags read":          simple(http.MethodGet, "/k?tagging", nil, http.StatusOK),
		"upload begun":       simple(http.MethodPost, "/k?uploads", nil, http.StatusOK),
		"another read":       simple(http.MethodGet, "/k", map[string]string{"If-Match": `"another"`}, http.StatusPreconditionFailed),
		"inside of another":  simple(http.MethodGet, "/k", map[string]string{"If-Match": `"another"`, "Range": "bytes=1-"}, http.StatusPreconditionFailed),
		"another asked for":  simple(http.MethodHead, "/k", map[string]string{"If-Match": `"another"`}, http.StatusPreconditionFailed),
		"read behind itself": simple(http.MethodGet, "/k", map[string]string{"Range": "bytes=100-"}, http.StatusRequestedRangeNotSatisfiable),
		"upload ended, by its id from a list": func(t *testing.T, p place) {
			core := p.client(t, number(2))
			create(t, p, "k", number(2))
			l, err := core.ListMultipartUploads(t.Context(), p.bucket, "k", "", "", "", 10)
			if err != nil || len(l.Uploads) != 1 {
				t.Fatal(l, err)
			}
			if err := core.AbortMultipartUpload(t.Context(), p.bucket, "k", l.Uploads[0].UploadID); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := behindLateWrite(t)
			between(t, p)
			p.do(t, http.MethodPut, "/k", "A+1", nil, number(2)).expect(t, "blind write behind it", http.StatusPreconditionFailed, "PreconditionFailed")
		})
	}
}

// behindLateWrite is a proxy through which holder 2 has read k, before a late write of holder
// 1 landed: of a key that is not closed yet.
func behindLateWrite(t *testing.T) place {
	t.Helper()
	s := newSite(t)
	p, old := s.proxy(t), s.proxy(t)
	old.put(t, "k", "A", number(1))
	p.holds(t, "k", "A", number(2))
	old.put(t, "k", "late", number(1))
	return p
}

// A copy onto itself with new metadata, as clients change metadata, tells of an older
// write as tagging does.
func TestCopyOntoItselfBehindAnOlderWrite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, old := s.proxy(t), s.proxy(t)
	old.put(t, "k", "A", number(1))
	p.holds(t, "k", "A", number(2))
	old.put(t, "k", "late", number(1))
	replaced := map[string]string{"X-Amz-Metadata-Directive": "REPLACE", "X-Amz-Meta-Sum": "of-A"}
	copies(t, p, p.bucket+"/k", "k", replaced, number(2)).expect(t, "copy onto itself", http.StatusPreconditionFailed, "PreconditionFailed")
	p.holds(t, "k", "late", number(2))
	copies(t, p, p.bucket+"/k", "k", replaced, number(2)).expect(t, "of what was read anew", http.StatusOK, "")
	p.holds(t, "k", "late", number(2))
}

// However a holder has read a key through a proxy, its next blind write tells of an older
// write that landed since: if the proxy knew the key from the older holder, too.
func TestReadsThatTell(t *testing.T) {
	t.Parallel()
	for what, read := range map[string]struct {
		method, query string
		header        func(etag string) map[string]string
	}{
		"all": {}, "asked for": {method: http.MethodHead}, "a part": {query: "?partNumber=1"},
		"the front": {header: func(string) map[string]string { return map[string]string{"Range": "bytes=0-1"} }},
		"inside":    {header: func(string) map[string]string { return map[string]string{"Range": "bytes=1-"} }},
		"the end":   {header: func(string) map[string]string { return map[string]string{"Range": "bytes=-1"} }},
		"not modified": {header: func(etag string) map[string]string {
			return map[string]string{"If-None-Match": `"` + etag + `"`}
		}},
		"not modified inside": {header: func(etag string) map[string]string {
			return map[string]string{"If-None-Match": `"` + etag + `"`, "Range": "bytes=1-"}
		}},
		"not modified, asked for": {method: http.MethodHead, header: func(etag string) map[string]string {
			return map[string]string{"If-None-Match": `"` + etag + `"`}
		}},
		"not modified since": {header: func(string) map[string]string {
			return map[string]string{"If-Modified-Since": time.Now().UTC().Format(http.TimeFormat)}
		}},
	} {
		for known, remembered := range map[string]bool{"": false, ", remembered": true} {
			t.Run(what+known, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				p, old := s.proxy(t), s.proxy(t)
				old.put(t, "other", "claims", number(1))
				writer := old
				if remembered {
					writer = p
				}
				etag := writer.put(t, "k", "ABC", number(1))
				var h map[string]string
				if read.header != nil {
					h = read.header(etag)
				}
				method := read.method
				if method == "" {
					method = http.MethodGet
				}
				if a := p.do(t, method, "/k"+read.query, "", h, number(2)); a.status/100 != 2 && a.status != http.StatusNotModified {
					t.Fatal(a)
				}
				old.put(t, "k", "late", number(1))
				p.do(t, http.MethodPut, "/k", "A+1", nil, number(2)).expect(t, "blind write behind it", http.StatusPreconditionFailed, "PreconditionFailed")
				p.do(t, http.MethodPut, "/k", "A+1", nil, number(2)).expect(t, "when it was told", http.StatusOK, "")
			})
		}
	}
}

// What was read as absent is seen, too.
func TestNothingIsSeen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, old := s.proxy(t), s.proxy(t)
	old.put(t, "k", "A", number(1))
	p.holds(t, "k", "A", number(2))
	if err := old.client(t, number(1)).RemoveObject(t.Context(), s.bucket, "k", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	p.do(t, http.MethodGet, "/k", "", map[string]string{"Range": "bytes=1-"}, number(2)).expect(t, "read", http.StatusNotFound, "NoSuchKey")
	p.do(t, http.MethodPut, "/k", "new", nil, number(2)).expect(t, "write of what is not there", http.StatusOK, "")
}
