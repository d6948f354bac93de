package gateway

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

// deleteMany leaves so many keys behind that were deleted.
func deleteMany(t *testing.T, p place, prefix string, n int) {
	t.Helper()
	core := p.client(t, number(1))
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			return core.RemoveObject(t.Context(), p.bucket, fmt.Sprintf("%s%04d", prefix, i), minio.RemoveObjectOptions{})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Behind any number of deleted keys a listing comes to its end, page by page as S3 says
// that a client goes on, and no page says that there is nothing if there is something:
// clients ask for one key to know whether there are any.
func TestListBehindDeletedKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	for _, key := range []string{"a", "d-/1", "z"} {
		p.put(t, key, "v", number(1))
	}
	deleteMany(t, p, "b", 205)
	deleteMany(t, p, "d-/0", 205)
	for _, delimiter := range []string{"", "/", "-"} {
		want := []string{"a", map[string]string{"": "d-/1", "/": "d-/", "-": "d-"}[delimiter], "z"}
		for _, version := range []string{"", "2"} {
			query := url.Values{"max-keys": {"1"}, "delimiter": {delimiter}}
			if version != "" {
				query.Set("list-type", version)
			}
			goOn := func(marker, continuation string) {
				if version != "" {
					query.Set("continuation-token", continuation)
				} else {
					query.Set("marker", marker)
				}
			}
			var got []string
			for more := true; more; {
				s.link.Forget()
				l := list(t, p, query.Encode(), 1)
				if n := s.link.Count(); n > 8 {
					t.Errorf("%s: %d requests to the store", query.Encode(), n)
				}
				n := len(l.Contents) + len(l.CommonPrefixes)
				if n != 1 || version != "" && l.KeyCount != 1 || len(got) > len(want) {
					t.Fatalf("%s: %+v behind %q", query.Encode(), l, got)
				}
				for _, o := range l.Contents {
					got = append(got, o.Key)
					goOn(o.Key, l.NextContinuationToken)
				}
				for _, o := range l.CommonPrefixes {
					got = append(got, o.Prefix)
					goOn(l.NextMarker, l.NextContinuationToken)
				}
				more = l.IsTruncated
			}
			if !slices.Equal(got, want) {
				t.Errorf("delimiter %q, version %q: %q, want %q", delimiter, version, got, want)
			}
		}
	}
	if l := list(t, p, "list-type=2&max-keys=1&prefix=b", 1); l.KeyCount != 0 || l.IsTruncated {
		t.Errorf("where all was deleted: %+v", l)
	}
	var got []string
	for info := range p.client(t, number(1)).ListObjectsIter(t.Context(), s.bucket, minio.ListObjectsOptions{UseV1: true, MaxKeys: 1, Recursive: true}) {
		if info.Err != nil {
			t.Fatal(info.Err)
		}
		got = append(got, info.Key)
	}
	if want := []string{"a", "d-/1", "z"}; !slices.Equal(got, want) {
		t.Errorf("minio-go lists %q, want %q", got, want)
	}
}

// The fence's own keys are jumped over, however many there are: marks stay for ever.
func TestListBehindTheFencesOwnKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, direct := s.proxy(t), s.direct(t)
	direct.bucket = s.bucket
	p.put(t, "z", "v", number(1))
	var group errgroup.Group
	group.SetLimit(8)
	core := direct.client(t)
	for i := range 20 {
		group.Go(func() error {
			_, err := core.PutObject(t.Context(), s.bucket, fmt.Sprintf(".fence/told/%04d", i), strings.NewReader("x"), 1, "", "", minio.PutObjectOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"max-keys=1", "", "delimiter=-&max-keys=2", "marker=.fence/marks/&max-keys=1", "list-type=2&max-keys=1", "list-type=2", "list-type=2&start-after=.fence/told/0000&max-keys=1"} {
		s.link.Forget()
		l := list(t, p, query, 1)
		if len(l.Contents) != 1 || l.Contents[0].Key != "z" || l.IsTruncated {
			t.Errorf("%s: %+v", query, l)
		}
		for _, r := range s.link.Requests() {
			for _, from := range []string{r.Query.Get("marker"), r.Query.Get("start-after")} {
				if strings.HasPrefix(from, ".fence/") && from < ".fence/z" {
					t.Errorf("%s: the store is asked for what is behind %q", query, from)
				}
			}
		}
	}
}
