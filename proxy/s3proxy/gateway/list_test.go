package gateway

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// listed is what of a listing does not depend on when and where.
type listed struct {
	Prefix       string `xml:"Prefix"`
	StartAfter   string `xml:"StartAfter"`
	Marker       string `xml:"Marker"`
	NextMarker   string `xml:"NextMarker"`
	Delimiter    string `xml:"Delimiter"`
	EncodingType string `xml:"EncodingType"`
	KeyCount     int    `xml:"KeyCount"`
	MaxKeys      int    `xml:"MaxKeys"`
	IsTruncated  bool   `xml:"IsTruncated"`
	Contents     []struct {
		Key  string `xml:"Key"`
		Size int64  `xml:"Size"`
	} `xml:"Contents"`
	CommonPrefixes []struct {
		Prefix string `xml:"Prefix"`
	} `xml:"CommonPrefixes"`
	NextContinuationToken string `xml:"NextContinuationToken"`
}

var awkwardKeys = []string{
	"a", "a b", "a+b", "a=b", "a:b", "a%2Fb", "a&b", "ü~", "a\"b'", "(x)*!", "a<b>", "dir/1", "dir/2", "dir/sub/3", "dir2/4", "e/f", "\u65e5\u672c/x", "\U0001F600",
}

func fill(t *testing.T, p place, keys []string, tokens ...int64) {
	t.Helper()
	for _, key := range keys {
		if len(tokens) == 0 {
			p.put(t, key, "v of "+key)
		} else {
			p.put(t, key, "v of "+key, number(tokens[0]))
		}
	}
}

func list(t *testing.T, p place, query string, tokens ...int64) listed {
	t.Helper()
	var a answered
	if len(tokens) == 0 {
		a = p.do(t, http.MethodGet, "?"+query, "", nil)
	} else {
		a = p.do(t, http.MethodGet, "?"+query, "", nil, number(tokens[0]))
	}
	var l listed
	if err := xml.Unmarshal([]byte(a.body), &l); err != nil || a.status != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", query, a.status, a.body, err)
	}
	return l
}

// decoded is a listing without its encoding.
func decoded(t *testing.T, l listed) listed {
	t.Helper()
	texts := []*string{&l.Prefix, &l.Delimiter, &l.Marker, &l.NextMarker, &l.StartAfter}
	for i := range l.Contents {
		texts = append(texts, &l.Contents[i].Key)
	}
	for i := range l.CommonPrefixes {
		texts = append(texts, &l.CommonPrefixes[i].Prefix)
	}
	for _, text := range texts {
		plain, err := url.QueryUnescape(*text)
		if err != nil {
			t.Error(err)
		}
		*text = plain
	}
	l.EncodingType = ""
	return l
}

// A listing through the proxy is the one that the server would give.
func TestListAsServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxied, direct := s.proxy(t), s.direct(t)
	fill(t, proxied, awkwardKeys, 1)
	fill(t, direct, awkwardKeys)
	proxied.put(t, "gone/1", "x", number(1))
	if err := proxied.client(t, number(1)).RemoveObject(t.Context(), s.bucket, "gone/1", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"list-type=2", "list-type=2&prefix=dir", "list-type=2&delimiter=%2F", "list-type=2&delimiter=%2F&prefix=dir%2F",
		"list-type=2&max-keys=0", "list-type=2&max-keys=3", "list-type=2&max-keys=3&delimiter=%2F", "list-type=2&max-keys=100000",
		"list-type=2&start-after=dir", "list-type=2&continuation-token=", "list-type=2&start-after=dir%2F1&delimiter=%2F", "list-type=2&encoding-type=url",
		"list-type=2&encoding-type=url&delimiter=%2F&prefix=a", "list-type=2&prefix=none", "list-type=2&delimiter=b",
		"", "prefix=dir", "delimiter=%2F", "delimiter=%2F&max-keys=8", "max-keys=0", "max-keys=2&marker=dir%2F1", "encoding-type=url&marker=a",
	} {
		got, want := list(t, proxied, query, 1), list(t, direct, query)
		if (got.NextContinuationToken == "") != (want.NextContinuationToken == "") {
			t.Errorf("%s: continuation %q, want %q", query, got.NextContinuationToken, want.NextContinuationToken)
		}
		got.NextContinuationToken, want.NextContinuationToken = "", ""
		if !strings.Contains(query, "delimiter") {
			want.NextMarker = "" // S3 has none then, versitygw does
		}
		if got.EncodingType == "url" { // versitygw takes no notice of it
			got = decoded(t, got)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", query, got, want)
		}
	}
}

// Pages are full, and all of them together are all of it, once.
func TestListPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	var keys []string
	for i := range 9 {
		for _, key := range []string{fmt.Sprintf("k%d", i), fmt.Sprintf("d%d/x", i)} {
			p.put(t, key, "v", number(1))
			if i%2 == 1 { // half of them tombstones
				if err := p.client(t, number(1)).RemoveObject(t.Context(), s.bucket, key, minio.RemoveObjectOptions{}); err != nil {
					t.Fatal(err)
				}
			} else {
				keys = append(keys, key)
			}
		}
	}
	for _, delimiter := range []string{"", "/"} {
		want := slices.Clone(keys)
		if delimiter != "" {
			for i := range want {
				want[i] = strings.TrimSuffix(want[i], "x")
			}
		}
		for _, v1 := range []bool{false, true} {
			var got []string
			query := url.Values{"max-keys": {"3"}, "delimiter": {delimiter}}
			if !v1 {
				query.Set("list-type", "2")
			}
			for pages := 0; ; pages++ {
				l := list(t, p, query.Encode(), 1)
				n := len(l.Contents) + len(l.CommonPrefixes)
				if n > 3 || l.IsTruncated && n != 3 || pages > len(want) {
					t.Fatalf("page of %d: %+v", n, l)
				}
				for _, o := range l.Contents {
					got = append(got, o.Key)
				}
				for _, o := range l.CommonPrefixes {
					got = append(got, o.Prefix)
				}
				if !l.IsTruncated {
					break
				}
				switch {
				case !v1:
					query.Set("continuation-token", l.NextContinuationToken)
					query.Set("start-after", "zzz") // counts for nothing now
				case delimiter != "":
					query.Set("marker", l.NextMarker)
				default:
					query.Set("marker", l.Contents[len(l.Contents)-1].Key)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("delimiter %q, v1 %v: %q, want %q", delimiter, v1, got, want)
			}
		}
	}
}

func TestListArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	for _, query := range []string{
		"list-type=2&max-keys=-1", "list-type=2&max-keys=x", "list-type=2&max-keys=99999999999", "list-type=2&encoding-type=base64",
		"list-type=2&continuation-token=!", "max-keys=1e3", "encoding-type=x",
		"uploads&max-uploads=-1", "uploads&max-uploads=x", "uploads&encoding-type=x",
	} {
		p.do(t, http.MethodGet, "?"+query, "", nil).expect(t, query, http.StatusBadRequest, "InvalidArgument")
	}
}

// The fence's own keys are in no listing, however it is asked for.
func TestListHidesFence(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	p.put(t, "z", "v", number(1)) // and a mark
	for _, query := range []string{
		"prefix=.", "prefix=.fence", "prefix=.fence%2F", "prefix=.fence%2Fmarks%2F", "delimiter=%2F&prefix=.", "delimiter=f", "delimiter=.",
		"delimiter=%2F&prefix=.fence%2F", "start-after=.fence%2Fmarks", "marker=.fence%2F", "max-keys=1", "delimiter=%2F&max-keys=1",
	} {
		for _, version := range []string{"list-type=2&", ""} {
			if version == "" && strings.HasPrefix(query, "start-after") || version != "" && strings.HasPrefix(query, "marker") {
				continue
			}
			l := list(t, p, version+query, 1)
			for _, o := range l.Contents {
				if o.Key != "z" {
					t.Errorf("%s: %q", query, o.Key)
				}
			}
			if len(l.CommonPrefixes) > 0 {
				t.Errorf("%s: %q", query, l.CommonPrefixes)
			}
		}
	}
}

// ETags are those of HEAD, and no client takes them for an MD5.
func TestListETags(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	put := p.put(t, "k", "v", number(1))
	core := p.client(t, number(1))
	head, err := core.StatObject(t.Context(), s.bucket, "k", minio.StatObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := core.ListObjectsV2(s.bucket, "", "", "", "", 10)
	if err != nil || len(page.Contents) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if o := page.Contents[0]; strings.Trim(o.ETag, `"`) != put || head.ETag != put || !strings.HasSuffix(put, "-0") || o.Size != 1 || o.StorageClass != "STANDARD" {
		t.Errorf("list %q %d %s, head %q, put %q", o.ETag, o.Size, o.StorageClass, head.ETag, put)
	}
}

// A listing under a token that was overtaken is refused, as far as is known.
func TestListStale(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	p.put(t, "k", "v", number(2))
	for _, query := range []string{"list-type=2", "prefix=k", "uploads"} {
		p.do(t, http.MethodGet, "?"+query, "", nil, number(1)).expect(t, query, http.StatusPreconditionFailed, "FenceTokenStale")
	}
}
