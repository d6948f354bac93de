package s3xml

import (
	"bytes"
	"encoding/xml"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files anew")

// awkward has what XML, percent-encoding and clients stumble over.
const awkward = "a b+c&<>\"'%2F\r\n\t\x01ü~*(é)/=:\u2028\uFFFE\U0001F600"

var (
	at    = time.Date(2026, 2, 3, 4, 5, 6, 7_890_000, time.FixedZone("", 3600))
	owner = Owner{ID: "1f", DisplayName: "o & p"}
)

func TestGolden(t *testing.T) {
	t.Parallel()
	objects := []Object{
		{Key: awkward, LastModified: at, ETag: "e-0", Size: 7},
		{Key: "k", LastModified: at, ETag: "f-2", Size: 1 << 40, Owner: &owner, StorageClass: "GLACIER"},
	}
	prefixes := []string{"p q/", "r/"}
	continued := "c+/="
	for name, d := range map[string]Document{
		"error": Error{
			Code: "AuthorizationHeaderMalformed", Message: "a < b", Resource: "/b/" + awkward, RequestID: "R1",
			Extra: map[string]string{"Region": "eu-1", "Bucket": "b"},
		},
		"copyobject": CopyObject{LastModified: at, ETag: "e-0"},
		"copypart":   CopyPart{LastModified: at, ETag: "e"},
		"create":     CreateUpload{Bucket: "b", Key: awkward, UploadID: "id"},
		"complete":   CompleteUpload{Location: "http://h/b/k", Bucket: "b", Key: "k", ETag: "e-2"},
		"delete": DeleteObjects{
			Deleted: []string{"a", awkward},
			Errors: []DeleteError{
				{Key: "k", Code: "PreconditionFailed", Message: "no"},
				{Key: "k", VersionID: "null", Code: "NotImplemented", Message: ""},
			},
		},
		"deletequiet":  DeleteObjects{},
		"tagging":      Tagging{Tags: []Tag{{Key: "k", Value: "v & w"}, {Key: "l"}}},
		"taggingempty": Tagging{},
		"buckets":      ListBuckets{Owner: owner, Buckets: []Bucket{{Name: "b", Created: at}, {Name: "c", Created: at}}, ContinuationToken: "c"},
		"versioning":   Versioning{Status: "Enabled"},
		"versioningno": Versioning{},
		"location":     Location{Region: "eu-1"},
		"locationus":   Location{Region: "us-east-1"},
		"list1": ListObjects{
			Name: "b", Prefix: "p q", Marker: "m n", NextMarker: "r/", MaxKeys: 4, Delimiter: "/", Truncated: true,
			Objects: objects, Prefixes: prefixes,
		},
		"list1empty": ListObjects{Name: "b", MaxKeys: 1000},
		"list2": ListObjectsV2{
			Name: "b", Prefix: "p q", StartAfter: "a b", MaxKeys: 1000, Delimiter: "/", Objects: objects, Prefixes: prefixes,
		},
		"list2url": ListObjectsV2{
			Name: "b", Prefix: "p q", StartAfter: "a b", Continuation: &continued, Next: "d+/=", MaxKeys: 4, Delimiter: " /",
			Encoding: EncodingURL, Truncated: true, Objects: objects, Prefixes: prefixes,
		},
		"list2empty": ListObjectsV2{Name: "b", MaxKeys: 0},
		"parts": ListParts{
			Bucket: "b", Key: awkward, UploadID: "id", Initiator: owner, Owner: owner, Marker: 1, Next: 3, MaxParts: 2,
			Truncated: true, Parts: []UploadedPart{{Number: 2, LastModified: at, ETag: "e", Size: 5}, {Number: 3, LastModified: at, ETag: "f"}},
		},
		"uploads": ListUploads{
			Bucket: "b", KeyMarker: "a b", UploadIDMarker: "i", NextKeyMarker: "k l", NextIDMarker: "j", Prefix: "p", Delimiter: "/",
			Encoding: EncodingURL, MaxUploads: 1, Truncated: true, Prefixes: prefixes,
			Uploads: []Upload{{Key: awkward, UploadID: "id", Initiator: owner, Owner: owner, Initiated: at}},
		},
	} {
		got := append(Encode(d), '\n')
		path := filepath.Join("testdata", name+".xml")
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// What a parser of XML 1.0 makes of a key is that key.
func FuzzEscape(f *testing.F) {
	f.Add(awkward)
	f.Add("a\xffb")
	f.Add("]]>")
	f.Fuzz(func(t *testing.T, key string) {
		page := ListObjectsV2{Name: "b", MaxKeys: 1, Objects: []Object{{Key: key}}}
		if printable(key) {
			if got, err := keyOf(Encode(page)); err != nil || got != key {
				t.Errorf("%q became %q, %v", key, got, err)
			}
		}
		page.Encoding = EncodingURL
		encoded, err := keyOf(Encode(page))
		if err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		if got, err := url.QueryUnescape(encoded); err != nil || got != key {
			t.Errorf("%q became %q, %v", key, encoded, err)
		}
	})
}

func keyOf(text []byte) (string, error) {
	var page struct {
		Contents []struct {
			Key string `xml:"Key"`
		} `xml:"Contents"`
	}
	err := xml.Unmarshal(text, &page)
	if err != nil {
		return "", err
	}
	return page.Contents[0].Key, nil
}

// printable reports whether XML 1.0 can carry text.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
	})
}
