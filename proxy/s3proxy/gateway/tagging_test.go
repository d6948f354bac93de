package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func TestTagging(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	p.put(t, "k", "value", number(1))
	core := p.client(t, number(1))
	want := map[string]string{"a": "1", "b + c": "x/y=z", "e": ""}
	set, err := tags.NewTags(want, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := core.PutObjectTagging(t.Context(), s.bucket, "k", set, minio.PutObjectTaggingOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := core.GetObjectTagging(t.Context(), s.bucket, "k", minio.GetObjectTaggingOptions{})
	if err != nil || got.Count() != len(want) || got.ToMap()["b + c"] != want["b + c"] {
		t.Errorf("%v, %v", got, err)
	}
	// All else is as it was.
	info, err := core.StatObject(t.Context(), s.bucket, "k", minio.StatObjectOptions{})
	if err != nil || info.UserTagCount != len(want) || info.ContentType != "text/plain" || info.UserMetadata["Color"] != "red" {
		t.Errorf("%+v, %v", info, err)
	}
	p.holds(t, "k", "value", number(1))
	if err := core.RemoveObjectTagging(t.Context(), s.bucket, "k", minio.RemoveObjectTaggingOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := core.GetObjectTagging(t.Context(), s.bucket, "k", minio.GetObjectTaggingOptions{}); err != nil || got.Count() != 0 {
		t.Errorf("%v, %v", got, err)
	}
	p.do(t, http.MethodGet, "/absent?tagging", "", nil, number(1)).expect(t, "tags of none", http.StatusNotFound, "NoSuchKey")
	p.do(t, http.MethodDelete, "/absent?tagging", "", nil, number(1)).expect(t, "delete tags of none", http.StatusNotFound, "NoSuchKey")
}

func TestTaggingRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, second := s.proxy(t), s.proxy(t)
	p.put(t, "k", "value", number(1))
	tag := func(key string) string { return "<Tag><Key>" + key + "</Key><Value>v</Value></Tag>" }
	doc := func(inside string) string { return "<Tagging><TagSet>" + inside + "</TagSet></Tagging>" }
	var eleven strings.Builder
	for i := range 11 {
		eleven.WriteString(tag(fmt.Sprint(i)))
	}
	for _, row := range []struct{ what, body, code string }{
		{"the same twice", doc(tag("a") + tag("a")), "InvalidTag"},
		{"too many", doc(eleven.String()), "BadRequest"},
		{"a long name", doc(tag(strings.Repeat("a", 129))), "InvalidTag"},
		{"letters beyond ASCII", doc(tag("é")), "InvalidTag"},
		{"no name", doc(tag("")), "InvalidTag"},
		{"no XML", "tags", "MalformedXML"},
	} {
		p.do(t, http.MethodPut, "/k?tagging", row.body, nil, number(1)).expect(t, row.what, http.StatusBadRequest, row.code)
	}
	p.do(t, http.MethodPut, "/k?tagging", doc(tag("a")), map[string]string{"Content-Md5": md5Of("")}, number(1)).
		expect(t, "wrong Content-MD5", http.StatusBadRequest, "BadDigest")
	p.do(t, http.MethodPut, "/k?tagging", doc(tag("a")), nil).expect(t, "no token", http.StatusForbidden, "FenceTokenMissing")
	second.put(t, "other", "x", number(2))
	for _, proxy := range []place{p, second} {
		if proxy == p { // this one has not heard of it, and the key is still the old one's
			continue
		}
		proxy.do(t, http.MethodPut, "/k?tagging", doc(tag("a")), nil, number(1)).expect(t, "stale", http.StatusPreconditionFailed, "FenceTokenStale")
		proxy.do(t, http.MethodDelete, "/k?tagging", "", nil, number(1)).expect(t, "stale", http.StatusPreconditionFailed, "FenceTokenStale")
	}
	second.put(t, "k", "newer", number(2))
	p.do(t, http.MethodPut, "/k?tagging", doc(tag("a")), nil, number(1)).expect(t, "stale", http.StatusPreconditionFailed, "FenceTokenStale")
	p.holds(t, "k", "newer", number(2))
	if a := p.do(t, http.MethodGet, "/k?tagging", "", nil, number(2)); strings.Contains(a.body, "<Tag>") {
		t.Errorf("tagged: %s", a.body)
	}
}

// Tags are a write without a condition: it tells of one of an older token that the
// client has not seen (I9).
func TestTaggingBehindAnOlderWrite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, old := s.proxy(t), s.proxy(t)
	old.put(t, "k", "A", number(1))
	p.put(t, "other", "claims it", number(2))
	p.holds(t, "k", "A", number(2))
	old.put(t, "k", "late", number(1)) // of a key that is not closed yet
	const body = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
	p.do(t, http.MethodPut, "/k?tagging", body, nil, number(2)).expect(t, "tags", http.StatusPreconditionFailed, "PreconditionFailed")
	p.holds(t, "k", "late", number(2))
	p.do(t, http.MethodPut, "/k?tagging", body, nil, number(2)).expect(t, "tags of what was read anew", http.StatusOK, "")
	p.holds(t, "k", "late", number(2))
}

// It tells of one that lands at any moment of it, too.
func TestTaggingBehindAnOlderWriteMeanwhile(t *testing.T) {
	t.Parallel()
	for n := range int32(3) { // a look for the size, one that counts, the payload
		s := newSite(t)
		p := s.proxy(t)
		older, err := s3store.New(s.server.Client(t), s3store.Config{Bucket: s.bucket})
		if err != nil {
			t.Fatal(err)
		}
		write := func(value string) {
			if _, err := older.Put(t.Context(), number(1), "k", strings.NewReader(value), int64(len(value)), s3store.PutOptions{}); err != nil {
				t.Error(err)
			}
		}
		write("A")
		p.holds(t, "k", "A", number(2))
		var reads atomic.Int32
		s.link.Answer(func(r s3link.Request) bool {
			if r.Op == s3link.GetObject && r.Key == "k" && reads.Add(1) == n+1 {
				write("late")
			}
			return false
		}, 1, http.StatusInternalServerError, "")
		const body = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
		p.do(t, http.MethodPut, "/k?tagging", body, nil, number(2)).expect(t, "tags", http.StatusPreconditionFailed, "PreconditionFailed")
		if reads.Load() <= n {
			t.Errorf("%d reads", reads.Load())
		}
		p.holds(t, "k", "late", number(2))
	}
}
