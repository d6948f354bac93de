package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// What is stored beside an object stays with it when it is framed, tagged or copied,
// whatever it is, and is told as the store itself tells it.
func TestWhatIsBesideAnObjectStays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, bare, elsewhere := s.proxy(t), s.direct(t), s.direct(t)
	bare.bucket = s.bucket
	told := func(h http.Header) http.Header { // of the object, not of the answer, and not of how the store keeps it
		h = maps.Clone(h)
		for _, name := range []string{
			"Date", "Etag", "Last-Modified", "Server", "Accept-Ranges", "Content-Length", "Connection", "Vary", "X-Amz-Request-Id",
			"X-Amz-Id-2", "X-Amz-Checksum-Type", "X-Amz-Checksum-Crc64nvme", "X-Amz-Tagging-Count", "X-Amz-Storage-Class",
		} {
			h.Del(name)
		}
		return h
	}
	s.config = func(c *Config) { // which reaches what is not fenced, too
		c.Untokened, c.Clients[0].Buckets = Allow, []string{s.bucket, elsewhere.bucket}
		c.Resources = []Resource{{Bucket: s.bucket, Resource: "orders"}}
	}
	wide := s.proxy(t)
	for what, header := range map[string]map[string]string{
		"Expires: 0":         {"Expires": "0"},
		"Expires: a date":    {"Expires": "Wed, 21 Oct 2037 07:28:00 GMT"},
		"Expires: -1":        {"Expires": "-1", "Cache-Control": "no-store"},
		"a name in a name":   {"X-Amz-Meta-X-Amz-Meta-Color": "red", "X-Amz-Meta-Color": "blue"},
		"no type":            {},
		"a word that is one": {"X-Amz-Meta-Subject": "=?UTF-8?B?w6k=?="},
		"blanks":             {"X-Amz-Meta-A": "a  b"},
		"disposition":        {"Content-Disposition": `attachment; filename="a,b"`},
	} {
		for _, body := range []string{"value", ""} {
			key := what + " " + body
			path := "/" + url.PathEscape(key)
			bare.do(t, http.MethodPut, path, body, header).expect(t, key+": past the proxy", http.StatusOK, "")
			elsewhere.do(t, http.MethodPut, path, body, header).expect(t, key+": elsewhere", http.StatusOK, "")
			before := told(bare.do(t, http.MethodHead, path, "", nil).header)
			same := func(step, path string) {
				t.Helper()
				for _, method := range []string{http.MethodHead, http.MethodGet} {
					a := p.do(t, method, path, "", nil, number(1))
					if after := told(a.header); a.status != http.StatusOK || !maps.EqualFunc(before, after, slices.Equal[[]string]) {
						t.Errorf("%s, %s: %d\n%v\nwas\n%v", key, step, a.status, after, before)
					}
				}
			}
			if err := s.frame(t, key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			same("framed", path)
			p.do(t, http.MethodPut, path+"?tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>", nil, number(1)).expect(t, key+": tags", http.StatusOK, "")
			same("tagged", path)
			copies(t, p, s.bucket+path, "copy", nil, number(1)).expect(t, key+": copy", http.StatusOK, "")
			same("copied", "/copy")
			copies(t, wide, elsewhere.bucket+path, "copy", nil, number(1)).expect(t, key+": copy of what is not fenced", http.StatusOK, "")
			same("copied from elsewhere", "/copy")
			p.do(t, http.MethodPut, "/new", body, header, number(1)).expect(t, key+": put", http.StatusOK, "")
			same("put", "/new")
		}
	}
}

// frame frames what begins with a prefix, as an operator does.
func (s *site) frame(t *testing.T, prefix string) error {
	t.Helper()
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client, err := minio.New(s.server.Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4(s.server.AccessKey, s.server.SecretKey, ""), Region: s.server.Region,
		BucketLookup: minio.BucketLookupPath, MaxRetries: 1, Transport: s3store.Transport(base),
	})
	if err != nil {
		return err
	}
	store, err := s3store.New(client, s3store.Config{Bucket: s.bucket})
	if err != nil {
		return err
	}
	return store.Frame(t.Context(), number(1), prefix, nil)
}
