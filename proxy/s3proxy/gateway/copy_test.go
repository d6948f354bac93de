package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
)

// copies sends a CopyObject, and returns what came of it.
func copies(t *testing.T, p place, from, to string, header map[string]string, tokens ...guard.Token) answered {
	t.Helper()
	h := map[string]string{"X-Amz-Copy-Source": from}
	maps.Copy(h, header)
	return p.do(t, http.MethodPut, "/"+to, "", h, tokens...)
}

// putTagged writes an object with metadata and tags.
func putTagged(t *testing.T, p place, key, value string, tokens ...guard.Token) minio.UploadInfo {
	t.Helper()
	info, err := p.client(t, tokens...).PutObject(t.Context(), p.bucket, key, strings.NewReader(value), int64(len(value)), "", "", minio.PutObjectOptions{
		ContentType: "text/css", CacheControl: "no-cache", ContentEncoding: "gzip", ContentLanguage: "de", ContentDisposition: "inline",
		UserMetadata: map[string]string{"color": "red"}, UserTags: map[string]string{"a": "1", "b": "2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A copy through the proxy has what a copy inside the server has.
func TestCopyAsServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxied, direct := s.proxy(t), s.direct(t)
	for what, header := range map[string]map[string]string{
		"as it is": nil,
		"metadata": {"X-Amz-Metadata-Directive": "REPLACE", "X-Amz-Meta-Size": "big", "Content-Type": "image/png", "Cache-Control": "public"},
		"no type":  {"X-Amz-Metadata-Directive": "REPLACE"},
		"tags":     {"X-Amz-Tagging-Directive": "REPLACE", "X-Amz-Tagging": "c=3"},
		"no tags":  {"X-Amz-Tagging-Directive": "REPLACE"},
		"both":     {"X-Amz-Metadata-Directive": "REPLACE", "X-Amz-Tagging-Directive": "REPLACE", "X-Amz-Tagging": "c=3", "X-Amz-Meta-Size": "big"},
		"ignored":  {"X-Amz-Meta-Size": "big", "Content-Type": "image/png"},
	} {
		var infos [2]minio.ObjectInfo
		var tags [2]string
		for i, p := range []place{proxied, direct} {
			var tokens []guard.Token
			if i == 0 {
				tokens = []guard.Token{number(1)}
			}
			putTagged(t, p, "from", "value", tokens...)
			copies(t, p, p.bucket+"/from", "to", header, tokens...).expect(t, what, http.StatusOK, "")
			core := p.client(t, tokens...)
			var err error
			if infos[i], err = core.StatObject(t.Context(), p.bucket, "to", minio.StatObjectOptions{}); err != nil {
				t.Fatal(err)
			}
			set, err := core.GetObjectTagging(t.Context(), p.bucket, "to", minio.GetObjectTaggingOptions{})
			if err == nil {
				tags[i] = set.String()
			}
			p.holds(t, "to", "value", tokens...)
		}
		got, want := infos[0], infos[1]
		for _, name := range []string{"Content-Type", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Disposition", "X-Amz-Meta-Color", "X-Amz-Meta-Size"} {
			// versitygw keeps how the source was sent.
			if got.Metadata.Get(name) != strings.TrimPrefix(want.Metadata.Get(name), "aws-chunked,") {
				t.Errorf("%s: %s is %q, want %q", what, name, got.Metadata.Get(name), want.Metadata.Get(name))
			}
		}
		if tags[0] != tags[1] || got.Size != want.Size {
			t.Errorf("%s: tags %q, want %q", what, tags[0], tags[1])
		}
	}
}

func TestCopySource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	for _, key := range awkwardKeys {
		p.put(t, key, "v of "+key, number(1))
		// A "+" that is not encoded is a blank.
		for _, from := range []string{"/" + s.bucket + "/" + strings.ReplaceAll(url.PathEscape(key), "+", "%2B"), url.QueryEscape(s.bucket + "/" + key)} {
			copies(t, p, from, "to", nil, number(1)).expect(t, from, http.StatusOK, "")
			p.holds(t, "to", "v of "+key, number(1))
		}
	}
	for from, want := range map[string]struct {
		status int
		code   string
	}{
		s.bucket + "/absent":                {http.StatusNotFound, "NoSuchKey"},
		s.bucket + "/a?versionId=null":      {http.StatusNotImplemented, "NotImplemented"},
		s.bucket + "/.fence/marks/x":        {http.StatusForbidden, "AccessDenied"},
		s.bucket + "/%2efence%2fmarks%2fx":  {http.StatusForbidden, "AccessDenied"},
		s.bucket + "/x/..%2f.fence/marks/x": {http.StatusForbidden, "AccessDenied"},
		s.bucket + "/../other/k":            {http.StatusBadRequest, "InvalidURI"},
		"somebodys-bucket/k":                {http.StatusForbidden, "AccessDenied"},
		s.bucket:                            {http.StatusBadRequest, "InvalidArgument"},
		s.bucket + "/":                      {http.StatusBadRequest, "InvalidArgument"},
		s.bucket + "/%zz":                   {http.StatusBadRequest, "InvalidArgument"},
	} {
		copies(t, p, from, "new", nil, number(1)).expect(t, from, want.status, want.code)
	}
	copies(t, p, s.bucket+"/a", "new", map[string]string{"X-Amz-Metadata-Directive": "MOVE"}, number(1)).
		expect(t, "directive", http.StatusBadRequest, "InvalidArgument")
	copies(t, p, s.bucket+"/a", "a", nil, number(1)).expect(t, "to itself", http.StatusBadRequest, "InvalidRequest")
	copies(t, p, s.bucket+"/a", ".fence/x", nil, number(1)).expect(t, "to the fence's", http.StatusForbidden, "AccessDenied")
	p.holds(t, "new", "", number(1))
	copies(t, p, s.bucket+"/a", "a", map[string]string{"X-Amz-Metadata-Directive": "REPLACE", "X-Amz-Meta-New": "1"}, number(1)).
		expect(t, "to itself, changed", http.StatusOK, "")
	p.holds(t, "a", "v of a", number(1))
}

func TestCopyConditions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	etag := `"` + p.put(t, "from", "value", number(1)) + `"`
	past, future := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	const source = "X-Amz-Copy-Source-"
	for what, row := range map[string]struct {
		header map[string]string
		status int
	}{
		"match":                {map[string]string{source + "If-Match": etag}, http.StatusOK},
		"no match":             {map[string]string{source + "If-Match": `"x"`}, http.StatusPreconditionFailed},
		"none match":           {map[string]string{source + "If-None-Match": `"x"`}, http.StatusOK},
		"the same":             {map[string]string{source + "If-None-Match": etag}, http.StatusPreconditionFailed},
		"modified":             {map[string]string{source + "If-Modified-Since": past}, http.StatusOK},
		"not modified":         {map[string]string{source + "If-Modified-Since": future}, http.StatusPreconditionFailed},
		"unmodified":           {map[string]string{source + "If-Unmodified-Since": future}, http.StatusOK},
		"not unmodified":       {map[string]string{source + "If-Unmodified-Since": past}, http.StatusPreconditionFailed},
		"match counts":         {map[string]string{source + "If-Match": etag, source + "If-Unmodified-Since": past}, http.StatusOK},
		"destination is there": {map[string]string{"If-None-Match": "*"}, http.StatusPreconditionFailed},
		"destination differs":  {map[string]string{"If-Match": `"x"`}, http.StatusPreconditionFailed},
	} {
		p.put(t, "to", "old", number(1))
		a := copies(t, p, s.bucket+"/from", "to", row.header, number(1))
		code, want := "", "value"
		if row.status != http.StatusOK {
			code, want = "PreconditionFailed", "old"
		}
		a.expect(t, what, row.status, code)
		p.holds(t, "to", want, number(1))
	}
	copies(t, p, s.bucket+"/from", "to", map[string]string{source + "If-Modified-Since": "yesterday"}, number(1)).
		expect(t, "no date", http.StatusBadRequest, "InvalidArgument")
	// The ETag of the result is that of the object.
	a := copies(t, p, s.bucket+"/from", "to", nil, number(1))
	head, err := p.client(t, number(1)).StatObject(t.Context(), s.bucket, "to", minio.StatObjectOptions{})
	if err != nil || !strings.Contains(a.body, "&quot;"+head.ETag+"&quot;") {
		t.Errorf("%s: %+v, %v", a.body, head, err)
	}
}

func TestCopyTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	first.put(t, "from", "value", number(1))
	first.put(t, "to", "old", number(2))
	copies(t, second, s.bucket+"/from", "to", nil, number(1)).expect(t, "stale", http.StatusPreconditionFailed, "FenceTokenStale")
	copies(t, second, s.bucket+"/from", "new", nil, number(1)).expect(t, "stale, new key", http.StatusPreconditionFailed, "FenceTokenStale")
	copies(t, second, s.bucket+"/from", "to", nil).expect(t, "no token", http.StatusForbidden, "FenceTokenMissing")
	copies(t, second, s.bucket+"/from", "to", nil, tokenOf("items", 9)).expect(t, "another's", http.StatusForbidden, "FenceTokenMissing")
	first.holds(t, "to", "old", number(2))
	first.holds(t, "new", "", number(2))
	// A source of another resource can be read, as by a GET.
	copies(t, second, s.bucket+"/from", "copy", nil, tokenOf("items", 9)).expect(t, "to one's own", http.StatusOK, "")
	second.holds(t, "copy", "value", tokenOf("items", 9))
}

// Another bucket of the client's is read too, whether it is fenced or not.
func TestCopyFromOtherBucket(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{true, false} {
		s := newSite(t)
		other := s.server.Bucket(t)
		s.config = func(c *Config) {
			c.Clients[0].Buckets = []string{s.bucket, other}
			if !fenced {
				c.Untokened, c.Resources = Allow, []Resource{{s.bucket, "", "orders"}}
			}
		}
		p := s.proxy(t)
		q := p
		q.bucket = other
		var tokens []guard.Token
		if fenced {
			tokens = []guard.Token{number(1)}
		}
		value := partOf(3, 2*mib)
		info := putTagged(t, q, "from", value, tokens...)
		copies(t, p, "/"+other+"/from", "to", map[string]string{"X-Amz-Copy-Source-If-Match": `"` + info.ETag + `"`}, number(2)).
			expect(t, "copy", http.StatusOK, "")
		p.holds(t, "to", value, number(2))
		head, err := p.client(t, number(2)).StatObject(t.Context(), s.bucket, "to", minio.StatObjectOptions{})
		if err != nil || head.UserMetadata["Color"] != "red" || head.ContentType != "text/css" || head.Metadata.Get("Content-Encoding") != "gzip" || head.UserTagCount != 2 {
			t.Errorf("fenced %v: %+v, %v", fenced, head, err)
		}
		copies(t, p, "/"+other+"/from", "to", map[string]string{"X-Amz-Copy-Source-If-None-Match": `"` + info.ETag + `"`}, number(2)).
			expect(t, "copy of the same", http.StatusPreconditionFailed, "PreconditionFailed")
		if fenced { // what was read there is the newer holder's: the token is claimed there too (I9)
			q.do(t, http.MethodPut, "/still", "x", nil, tokens...).expect(t, "older", http.StatusPreconditionFailed, "FenceTokenStale")
		} else {
			q.put(t, "still", "x")
		}

		id := create(t, p, "parts", number(2))
		at := "/parts?partNumber=1&uploadId=" + url.QueryEscape(id)
		a := p.do(t, http.MethodPut, at, "", map[string]string{"X-Amz-Copy-Source": other + "/from", "X-Amz-Copy-Source-Range": "bytes=5-104"}, number(2))
		a.expect(t, "copy part", http.StatusOK, "")
		p.do(t, http.MethodPut, at, "", map[string]string{"X-Amz-Copy-Source": other + "/from", "X-Amz-Copy-Source-Range": "bytes=5-9999999"}, number(2)).
			expect(t, "beyond", http.StatusBadRequest, "InvalidArgument")
		if _, err := complete(t, p, "parts", id, []minio.CompletePart{partIn(a, 1)}, number(2)); err != nil {
			t.Fatal(err)
		}
		p.holds(t, "parts", value[5:105], number(2))
	}
}

// A copy onto itself overwrites what its client names, be it as the source: it has seen
// that, though through another proxy (I3).
func TestCopyOntoItselfOfWhatIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, old := s.proxy(t), s.proxy(t)
	for key, name := range map[string]string{"source": "X-Amz-Copy-Source-If-Match", "destination": "If-Match"} {
		first := old.put(t, key, "A", number(1))
		p.holds(t, key, "A", number(2))
		late := old.put(t, key, "late", number(1))
		header := map[string]string{"X-Amz-Metadata-Directive": "REPLACE", name: `"` + first + `"`}
		copies(t, p, p.bucket+"/"+key, key, header, number(2)).expect(t, key+", of another state", http.StatusPreconditionFailed, "PreconditionFailed")
		header[name] = `"` + late + `"`
		copies(t, p, p.bucket+"/"+key, key, header, number(2)).expect(t, key, http.StatusOK, "")
		p.holds(t, key, "late", number(2))
	}
}

// partIn is the part that a CopyPartResult tells of.
func partIn(a answered, number int) minio.CompletePart {
	_, rest, _ := strings.Cut(a.body, "&quot;")
	etag, _, _ := strings.Cut(rest, "&quot;")
	return minio.CompletePart{PartNumber: number, ETag: etag}
}

func TestCopyPart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	value := partOf(1, 11*mib)
	if _, err := first.client(t, number(1)).PutObject(t.Context(), s.bucket, "from", strings.NewReader(value), int64(len(value)), "", "", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	id := create(t, first, "to", number(1))
	part := func(p place, n, span string, want int, code string) minio.CompletePart {
		header := map[string]string{"X-Amz-Copy-Source": s.bucket + "/from"}
		if span != "" {
			header["X-Amz-Copy-Source-Range"] = span
		}
		a := p.do(t, http.MethodPut, "/to?partNumber="+n+"&uploadId="+url.QueryEscape(id), "", header, number(1))
		a.expect(t, "part "+n+" "+span, want, code)
		return partIn(a, int(n[0]-'0'))
	}
	parts := []minio.CompletePart{
		part(first, "1", "bytes=0-5242879", http.StatusOK, ""),
		part(second, "2", "bytes=5242880-11534335", http.StatusOK, ""),
		part(second, "3", "", http.StatusOK, ""),
	}
	for _, span := range []string{"bytes=0-11534336", "bytes=5-", "bytes=-5", "bytes=9-8", "0-5", "bytes=0-1,3-4", "bytes=20000000-20000001"} {
		part(first, "4", span, http.StatusBadRequest, "InvalidArgument")
	}
	first.do(t, http.MethodPut, "/to?partNumber=4&uploadId="+url.QueryEscape(id), "", map[string]string{
		"X-Amz-Copy-Source": s.bucket + "/from", "X-Amz-Copy-Source-If-Match": `"x"`,
	}, number(1)).expect(t, "condition", http.StatusPreconditionFailed, "PreconditionFailed")
	if listed, err := first.client(t, number(1)).ListObjectParts(t.Context(), s.bucket, "to", id, 0, 10); err != nil || len(listed.ObjectParts) != 3 {
		t.Errorf("%+v, %v", listed.ObjectParts, err)
	}
	if _, err := complete(t, second, "to", id, parts, number(1)); err != nil {
		t.Fatal(err)
	}
	first.holds(t, "to", value+value, number(1))
}
