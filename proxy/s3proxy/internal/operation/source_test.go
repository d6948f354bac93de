package operation

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzSource: a source that is read is one object of one bucket, and is the same
// when it is written and read again.
func FuzzSource(f *testing.F) {
	for _, seed := range []string{"b/k", "/b/k", "b%2Fk", "//b/k", "b/k?versionId=1", "b/k%3FversionId=1", "b/..%2F..%2Fo/k", "b/a+b%2B", "b/%zz", "b/k?versionId=1?versionId=2", "b/%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSource(text)
		if err != nil {
			if s != (Source{}) && s.Bucket != "" && s.Key != "" {
				t.Errorf("%q: %+v in spite of %v", text, s, err)
			}
			return
		}
		if s.Bucket == "" || s.Key == "" || strings.Contains(s.Bucket, "/") {
			t.Errorf("%q: %+v", text, s)
		}
		again, err := ParseSource(url.QueryEscape(s.Bucket) + "/" + url.QueryEscape(s.Key) + "?versionId=" + url.QueryEscape(s.Version))
		if err != nil || again != s {
			t.Errorf("%q: %+v became %+v, %v", text, s, again, err)
		}
	})
}
