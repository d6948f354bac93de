package gateway

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

func TestListUploads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := s.proxy(t), s.proxy(t)
	ids, parts := map[string]string{}, map[string]minio.CompletePart{}
	for _, key := range []string{"a", "b", "dir/c", "dir/d"} {
		ids[key] = create(t, first, key, number(1))
		parts[key] = upload(t, first, key, ids[key], 1, "payload of "+key, number(1))
	}
	core := second.client(t, number(1))
	page, err := core.ListMultipartUploads(t.Context(), s.bucket, "", "", "", "/", 1000)
	if err != nil || len(page.Uploads) != 2 || len(page.CommonPrefixes) != 1 || page.CommonPrefixes[0].Prefix != "dir/" {
		t.Fatalf("%+v, %v", page, err)
	}
	var keys []string
	var listed []minio.ObjectMultipartInfo
	keyMarker := ""
	for range 5 {
		page, err := core.ListMultipartUploads(t.Context(), s.bucket, "", keyMarker, "", "", 1) // versitygw refuses its own NextUploadIdMarker
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range page.Uploads {
			keys = append(keys, u.Key)
			// What lists it names is good to look and to end, not to write.
			if parts, err := core.ListObjectParts(t.Context(), s.bucket, u.Key, u.UploadID, 0, 10); err != nil || len(parts.ObjectParts) != 1 {
				t.Errorf("%s: %+v, %v", u.Key, parts, err)
			}
			if _, err := complete(t, second, u.Key, u.UploadID, []minio.CompletePart{{PartNumber: 1, ETag: "e"}}, number(1)); err == nil {
				t.Errorf("%s: completed by an id of a list", u.Key)
			}
			listed = append(listed, u)
		}
		if keyMarker = page.NextKeyMarker; !page.IsTruncated {
			break
		}
	}
	if strings.Join(keys, " ") != "a b dir/c dir/d" {
		t.Errorf("keys: %q", keys)
	}
	for _, u := range listed {
		if err := core.AbortMultipartUpload(t.Context(), s.bucket, u.Key, u.UploadID); err != nil {
			t.Errorf("%s: %v", u.Key, err)
		}
	}
	_, err = complete(t, first, "a", ids["a"], []minio.CompletePart{parts["a"]}, number(1))
	refusedWith(t, "an upload that was ended", err, "NoSuchUpload")
	for what, query := range map[string]string{"none": "uploads&max-uploads=0", "the fence's": "uploads&prefix=.fence%2F"} {
		if a := first.do(t, http.MethodGet, "?"+query, "", nil, number(1)); a.status != http.StatusOK || strings.Contains(a.body, "<Upload>") {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
}

func TestListPartsPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	id := create(t, p, "k", number(1))
	for n := range 5 {
		upload(t, p, "k", id, n+1, partOf(n, 10+n), number(1))
	}
	var numbers []int
	for marker := 0; ; {
		a := p.do(t, http.MethodGet, fmt.Sprintf("/k?max-parts=2&part-number-marker=%d&uploadId=%s", marker, url.QueryEscape(id)), "", nil, number(1))
		var r struct {
			NextPartNumberMarker int    `xml:"NextPartNumberMarker"`
			IsTruncated          bool   `xml:"IsTruncated"`
			UploadID             string `xml:"UploadId"`
			Part                 []struct {
				PartNumber int `xml:"PartNumber"`
				Size       int `xml:"Size"`
			} `xml:"Part"`
		}
		if err := xml.Unmarshal([]byte(a.body), &r); err != nil || r.UploadID != id || len(numbers) > 5 {
			t.Fatalf("%s, %v", a.body, err)
		}
		for _, part := range r.Part {
			if part.Size != 9+part.PartNumber {
				t.Errorf("part %d has %d bytes", part.PartNumber, part.Size)
			}
			numbers = append(numbers, part.PartNumber)
		}
		if !r.IsTruncated {
			break
		}
		marker = r.NextPartNumberMarker
	}
	if fmt.Sprint(numbers) != "[1 2 3 4 5]" {
		t.Error(numbers)
	}
	for _, q := range []string{"max-parts=-1", "max-parts=x", "part-number-marker=-1", "part-number-marker=x"} {
		p.do(t, http.MethodGet, "/k?"+q+"&uploadId="+url.QueryEscape(id), "", nil, number(1)).expect(t, q, http.StatusBadRequest, "InvalidArgument")
	}
}

// Uploads of keys that are not fenced are the server's own.
func TestListUploadsAllow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = func(c *Config) {
		c.Untokened, c.Resources = Allow, []Resource{{s.bucket, "o/", "orders"}}
	}
	p := s.proxy(t)
	free, err := p.client(t).NewMultipartUpload(t.Context(), s.bucket, "free", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, p, "o/1", number(1))
	core := p.client(t)
	page, err := core.ListMultipartUploads(t.Context(), s.bucket, "", "", "", "", 10)
	if err != nil || len(page.Uploads) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, u := range page.Uploads {
		if (u.UploadID == free) != (u.Key == "free") {
			t.Errorf("%s: %s", u.Key, u.UploadID)
		}
		err := core.AbortMultipartUpload(t.Context(), s.bucket, u.Key, u.UploadID)
		if u.Key == "free" && err != nil {
			t.Error(err)
		} else if u.Key != "free" {
			refusedWith(t, u.Key, err, "FenceTokenMissing")
		}
	}
}
