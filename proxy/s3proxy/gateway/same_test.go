package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
)

const sameTags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"

// goneID is the id of no upload, as versitygw makes them.
const goneID = "00000000-0000-0000-0000-000000000000"

type fields = map[string]string

// requests are compared. A row with a reason is one that the server answers
// otherwise.
var requests = []struct {
	method, path, body string
	header             fields
	status             int
	code, why          string
}{
	{method: http.MethodPut, path: "/absent", body: "x", header: fields{"If-Match": `"x"`}},
	{method: http.MethodPut, path: "/k", body: "x", header: fields{"If-Match": `"x"`}},
	{method: http.MethodPut, path: "/k", body: "x", header: fields{"If-None-Match": "*"}},
	{method: http.MethodPost, path: "/new?uploads"},
	{method: http.MethodPost, path: "/new?uploads", header: fields{"X-Amz-Tagging": "a=1", "X-Amz-Storage-Class": "STANDARD"}},
	{method: http.MethodPut, path: "/u?partNumber=3&uploadId={id}", body: "part"},
	{method: http.MethodPut, path: "/u?partNumber=0&uploadId={id}", body: "part"},
	{method: http.MethodPut, path: "/u?partNumber=10001&uploadId={id}", body: "part"},
	{method: http.MethodPut, path: "/u?partNumber=x&uploadId={id}", body: "part"},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId=" + goneID, body: "part"},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId={id}", body: "part", header: fields{"Content-Md5": md5Of("x")}},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId={id}", body: "part", header: fields{"Content-Md5": "x"}},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId={id}", header: fields{"X-Amz-Copy-Source": "{bucket}/k"}},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId={id}", header: fields{"X-Amz-Copy-Source": "{bucket}/absent"}},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId={id}", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Copy-Source-Range": "bytes=1-2"}},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId={id}", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Copy-Source-Range": "bytes=2-1"}},
	{method: http.MethodPut, path: "/u?partNumber=1&uploadId={id}", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Copy-Source-Range": "bytes=0-99"}},
	{method: http.MethodGet, path: "/u?uploadId={id}"},
	{method: http.MethodGet, path: "/u?uploadId={id}&max-parts=0"},
	{method: http.MethodGet, path: "/u?uploadId={id}&max-parts=x"},
	{method: http.MethodGet, path: "/u?uploadId={id}&part-number-marker=x"},
	{method: http.MethodGet, path: "/u?uploadId=" + goneID},
	{method: http.MethodPost, path: "/u?uploadId={id}", body: "x"},
	{method: http.MethodPost, path: "/u?uploadId={id}", body: "<CompleteMultipartUpload></CompleteMultipartUpload>"},
	{method: http.MethodPost, path: "/u?uploadId={id}", body: completeBody(minio.CompletePart{PartNumber: 1, ETag: "x"})},
	{
		method: http.MethodPost, path: "/u?uploadId=" + goneID, body: completeBody(minio.CompletePart{PartNumber: 1, ETag: "x"}),
		status: http.StatusNotFound, code: "NoSuchUpload", why: "versitygw does not look for the upload first",
	},
	{method: http.MethodPost, path: "/u?uploadId={id}", body: "{complete}", header: fields{"If-Match": `"x"`}},
	{method: http.MethodPost, path: "/u?uploadId={id}", body: "{complete}"},
	{method: http.MethodDelete, path: "/u?uploadId={id}"},
	{method: http.MethodDelete, path: "/u?uploadId=" + goneID},
	{method: http.MethodGet, path: "?uploads"},
	{method: http.MethodGet, path: "?uploads&max-uploads=x"},
	{method: http.MethodGet, path: "?list-type=2&max-keys=x"},
	{method: http.MethodGet, path: "?list-type=2&continuation-token="},
	{method: http.MethodGet, path: "?max-keys=-1"},
	{method: http.MethodPost, path: "?delete", body: deleteBody(false, "k", "absent"), header: fields{"Content-Md5": md5Of(deleteBody(false, "k", "absent"))}},
	{
		method: http.MethodPost, path: "?delete", body: "x", header: fields{"Content-Md5": md5Of("x")},
		status: http.StatusBadRequest, code: "MalformedXML", why: "versitygw has another code for it",
	},
	{method: http.MethodPost, path: "?delete", body: deleteBody(false, "k")},
	{method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}/k"}},
	{method: http.MethodPut, path: "/k", header: fields{"X-Amz-Copy-Source": "{bucket}/k"}},
	{method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}"}},
	{method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}/absent"}},
	{method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Metadata-Directive": "X"}},
	{method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Tagging-Directive": "X"}},
	{method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Copy-Source-If-Match": `"x"`}},
	{
		method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Copy-Source-If-None-Match": "*"},
		status: http.StatusPreconditionFailed, code: "PreconditionFailed", why: "versitygw answers as if it were a read",
	},
	{method: http.MethodPut, path: "/new", header: fields{"X-Amz-Copy-Source": "{bucket}/k", "X-Amz-Copy-Source-If-Unmodified-Since": "Mon, 02 Jan 2006 15:04:05 GMT"}},
	{method: http.MethodGet, path: "/k?tagging"},
	{method: http.MethodGet, path: "/absent?tagging"},
	{method: http.MethodPut, path: "/k?tagging", body: sameTags},
	{method: http.MethodPut, path: "/k?tagging", body: "x"},
	{method: http.MethodPut, path: "/k?tagging", body: strings.Replace(sameTags, "<Key>a", "<Key>", 1)},
	{method: http.MethodPut, path: "/absent?tagging", body: sameTags},
	{method: http.MethodDelete, path: "/k?tagging"},
	{method: http.MethodDelete, path: "/absent?tagging"},
}

// The proxy answers as the server does, status and code; where it does not, the
// row says what it answers, and why.
func TestAnswersAsServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxied, direct := s.proxy(t), s.direct(t)
	for _, row := range requests {
		var answers [2]answered
		for i, p := range []place{proxied, direct} {
			var tokens []guard.Token
			if i == 0 {
				tokens = []guard.Token{number(1)}
			}
			putTagged(t, p, "k", "value", tokens...)
			core := p.client(t, tokens...)
			id, err := core.NewMultipartUpload(t.Context(), p.bucket, "u", minio.PutObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			part, err := core.PutObjectPart(t.Context(), p.bucket, "u", id, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			fill := strings.NewReplacer("{id}", url.QueryEscape(id), "{bucket}", p.bucket, "{complete}", completeBody(minio.CompletePart{PartNumber: 1, ETag: part.ETag}))
			h := fields{}
			for name, value := range row.header {
				h[name] = fill.Replace(value)
			}
			answers[i] = p.do(t, row.method, fill.Replace(row.path), fill.Replace(row.body), h, tokens...)
			_ = core.AbortMultipartUpload(t.Context(), p.bucket, "u", id)
		}
		got, want := answers[0], answers[1]
		status, code := want.status, want.code()
		if row.why != "" {
			if status == row.status && code == row.code {
				t.Errorf("%s %s %v: the server answers so too", row.method, row.path, row.header)
			}
			status, code = row.status, row.code
		}
		if got.status != status || got.code() != code {
			t.Errorf("%s %s %.60s %v:\n got %d %s %.300s\nwant %d %s %.300s", row.method, row.path, row.body, row.header,
				got.status, got.code(), got.body, status, code, want.body)
		}
	}
}
