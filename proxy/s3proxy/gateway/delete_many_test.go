package gateway

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
)

// deleted is the result of a DeleteObjects: the code by key, "" if it was deleted.
func deleted(t *testing.T, p place, body string, tokens ...guard.Token) map[string]string {
	t.Helper()
	a := p.do(t, http.MethodPost, "?delete", body, map[string]string{"Content-Md5": md5Of(body)}, tokens...)
	var r struct {
		Deleted []struct {
			Key string `xml:"Key"`
		} `xml:"Deleted"`
		Error []struct {
			Key  string `xml:"Key"`
			Code string `xml:"Code"`
		} `xml:"Error"`
	}
	if err := xml.Unmarshal([]byte(a.body), &r); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	codes := map[string]string{}
	for _, d := range r.Deleted {
		codes[d.Key] = ""
	}
	for _, e := range r.Error {
		codes[e.Key] = e.Code
	}
	return codes
}

func deleteBody(quiet bool, objects ...string) string {
	for i, o := range objects {
		if !strings.HasPrefix(o, "<") {
			objects[i] = "<Key>" + o + "</Key>"
		}
	}
	return fmt.Sprintf("<Delete><Quiet>%v</Quiet><Object>%s</Object></Delete>", quiet, strings.Join(objects, "</Object><Object>"))
}

func TestDeleteObjects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	etag := p.put(t, "a", "1", number(1))
	p.put(t, "b", "2", number(1))
	p.put(t, "c", "3", number(1))
	p.put(t, "newer", "4", number(3))
	p.put(t, "d &amp; e", "5", number(3))
	got := deleted(t, p, deleteBody(false,
		"<Key>a</Key><ETag>&quot;"+etag+"&quot;</ETag>", "<Key>b</Key><ETag>wrong-0</ETag>", "c", "absent", ".fence/marks/x", "x/../.fence/y",
		"<Key>v</Key><VersionId>1</VersionId>", "<Key>s</Key><Size>1</Size>", strings.Repeat("k", 1025), "../out",
	), number(3))
	for key, want := range map[string]string{
		"a": "", "b": "PreconditionFailed", "c": "", "absent": "", ".fence/marks/x": "AccessDenied", "x/../.fence/y": "AccessDenied",
		"v": "NotImplemented", "s": "NotImplemented", strings.Repeat("k", 1025): "KeyTooLongError", "../out": "InvalidURI",
	} {
		if code, there := got[key]; !there || code != want {
			t.Errorf("%.20s: %q %v, want %q", key, code, there, want)
		}
	}
	p.holds(t, "a", "", number(3))
	p.holds(t, "b", "2", number(3))
	p.holds(t, "c", "", number(3))
	// Of what a quiet one has deleted nothing is told.
	if got := deleted(t, p, deleteBody(true, "newer", "<Key>b</Key><ETag>e</ETag>"), number(3)); len(got) != 1 || got["b"] == "" {
		t.Errorf("quiet: %v", got)
	}
}

func TestDeleteObjectsTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = func(c *Config) {
		c.Resources = []Resource{{s.bucket, "o/", "orders"}, {s.bucket, "i/", "items"}}
	}
	p, second := s.proxy(t), s.proxy(t)
	p.put(t, "o/1", "1", number(2))
	p.put(t, "i/1", "1", tokenOf("items", 7))
	// Each key is decided by its own: one of the tokens is stale.
	got := deleted(t, second, deleteBody(false, "o/1", "i/1"), number(1), tokenOf("items", 7))
	if got["o/1"] != "FenceTokenStale" || got["i/1"] != "" {
		t.Errorf("%v", got)
	}
	p.holds(t, "o/1", "1", number(2))
	if got = deleted(t, second, deleteBody(false, "o/1", "i/1"), tokenOf("items", 7)); got["o/1"] != "FenceTokenMissing" || got["i/1"] != "" {
		t.Errorf("%v", got)
	}
	body := deleteBody(false, "o/1")
	second.do(t, http.MethodPost, "?delete", body, map[string]string{"Content-Md5": md5Of(body)}).
		expect(t, "no token", http.StatusForbidden, "FenceTokenMissing")
	p.holds(t, "o/1", "1", number(2))
}

func TestDeleteObjectsBody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	p.put(t, "k", "1", number(1))
	body := deleteBody(false, "k")
	for _, row := range []struct {
		what, body string
		header     map[string]string
		status     int
		code       string
	}{
		{"no checksum", body, nil, http.StatusBadRequest, "InvalidRequest"},
		{"wrong Content-MD5", body, map[string]string{"Content-Md5": md5Of("x")}, http.StatusBadRequest, "BadDigest"},
		{"wrong CRC32", body, map[string]string{"X-Amz-Checksum-Crc32": "AAAAAA=="}, http.StatusBadRequest, "BadDigest"},
		{"no XML", "k", map[string]string{"Content-Md5": md5Of("k")}, http.StatusBadRequest, "MalformedXML"},
		{"too many", deleteBody(false, strings.Split(strings.Repeat("k,", s3xml.MaxDelete)+"k", ",")...), nil, http.StatusBadRequest, "MalformedXML"},
		{"too large", body + strings.Repeat("<!--more-->", 4<<20/11+1), nil, http.StatusBadRequest, "MaxMessageLengthExceeded"},
	} {
		p.do(t, http.MethodPost, "?delete", row.body, row.header, number(1)).expect(t, row.what, row.status, row.code)
	}
	p.holds(t, "k", "1", number(1))
}

// minio-go's own way, a thousand keys at once.
func TestDeleteObjectsMany(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	core := p.client(t, number(1))
	p.put(t, "k7", "v", number(1))
	objects := make(chan minio.ObjectInfo)
	go func() {
		defer close(objects)
		for i := range 300 {
			objects <- minio.ObjectInfo{Key: fmt.Sprintf("k%d", i)}
		}
	}()
	for e := range core.RemoveObjects(t.Context(), s.bucket, objects, minio.RemoveObjectsOptions{}) {
		t.Error(e.ObjectName, e.Err)
	}
	p.holds(t, "k7", "", number(1))
	if l := list(t, p, "list-type=2", 1); len(l.Contents) > 0 {
		t.Errorf("left: %+v", l.Contents)
	}
}

// Where nothing is fenced, keys are deleted beside those that are.
func TestDeleteObjectsAllow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = func(c *Config) {
		c.Untokened, c.Resources = Allow, []Resource{{s.bucket, "o/", "orders"}}
	}
	p := s.proxy(t)
	p.put(t, "free", "1")
	p.put(t, "o/1", "1", number(1))
	got := deleted(t, p, deleteBody(false, "free", "o/1"), number(1))
	if got["free"] != "FenceTokenMissing" || got["o/1"] != "" {
		t.Errorf("with a token: %v", got)
	}
	p.put(t, "o/1", "1", number(1))
	got = deleted(t, p, deleteBody(false, "free", "o/1", "o/../o/1"))
	if got["free"] != "" || got["o/1"] != "FenceTokenMissing" || got["o/../o/1"] == "" {
		t.Errorf("without one: %v", got)
	}
	p.holds(t, "free", "")
	p.holds(t, "o/1", "1", number(1))
	// What the store refuses it has not done.
	s.link.Answer(s3link.Op(s3link.DeleteObject), 1, http.StatusForbidden, "AccessDenied")
	if got = deleted(t, p, deleteBody(false, "free")); got["free"] != "AccessDenied" {
		t.Errorf("refused by the store: %v", got)
	}
	s.link.Answer(s3link.Op(s3link.DeleteObject), 1, http.StatusInternalServerError, "InternalError")
	if got = deleted(t, p, deleteBody(false, "free")); got["free"] != "InternalError" {
		t.Errorf("failed at the store: %v", got)
	}
}
