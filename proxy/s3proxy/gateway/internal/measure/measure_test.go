package measure

import (
	"errors"
	"net/http"
	"strconv"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// listOf lists parts of these sizes, two on a page.
func listOf(sizes ...int64) func(marker, limit int) (minio.ListObjectPartsResult, error) {
	return func(marker, limit int) (r minio.ListObjectPartsResult, err error) {
		for i := marker; i < len(sizes); i++ {
			if len(r.ObjectParts) == min(limit, 2) {
				r.IsTruncated, r.NextPartNumberMarker = true, i
				break
			}
			r.ObjectParts = append(r.ObjectParts, minio.ObjectPart{PartNumber: i + 1, ETag: "e", Size: sizes[i]})
		}
		return r, nil
	}
}

func parts(numbers ...int) (list []minio.CompletePart) {
	for _, n := range numbers {
		list = append(list, minio.CompletePart{PartNumber: n, ETag: "e"})
	}
	return list
}

func TestParts(t *testing.T) {
	t.Parallel()
	broken := func(int, int) (minio.ListObjectPartsResult, error) {
		return minio.ListObjectPartsResult{}, errors.New("no such upload")
	}
	for name, c := range map[string]struct {
		list  func(marker, limit int) (minio.ListObjectPartsResult, error)
		parts []minio.CompletePart
		size  string
		want  string
	}{
		"right":                    {listOf(MinPart, MinPart, 7), parts(1, 2, 3), strconv.Itoa(2*MinPart + 7), ""},
		"nothing said":             {listOf(MinPart, 7), parts(1, 2), "", ""},
		"wrong":                    {listOf(MinPart, MinPart, 7), parts(1, 2, 3), strconv.Itoa(2*MinPart + 8), "InvalidRequest"},
		"not all":                  {listOf(MinPart, 5, 7), parts(1, 3), strconv.Itoa(MinPart + 7), ""},
		"one of the others":        {listOf(MinPart, 5, 7), parts(1, 3), strconv.Itoa(MinPart + 12), "InvalidRequest"},
		"a part that is not there": {listOf(MinPart), parts(1, 9), "8", ""}, // the store tells
		"no number":                {listOf(1), parts(1), "many", "InvalidArgument"},
		"less than nothing":        {listOf(1), parts(1), "-1", "InvalidArgument"},
		"first by its header":      {listOf(MinPart-layout.HeaderSize, 7), parts(1, 2), "", "EntityTooSmall"},
		"first by a byte":          {listOf(MinPart-1, 7), parts(1, 2), "", "EntityTooSmall"},
		"first by more":            {listOf(MinPart-layout.HeaderSize-1, 7), parts(1, 2), "", ""}, // the store tells
		"the only one":             {listOf(MinPart - 1), parts(1), strconv.Itoa(MinPart - 1), ""},
		"no list":                  {broken, parts(1, 2), "9", ""},
	} {
		h := http.Header{}
		if c.size != "" {
			h.Set("X-Amz-Mp-Object-Size", c.size)
		}
		err := Parts(c.parts, h, c.list)
		var e *refusal.Error
		if got := errors.As(err, &e) && e.Code == c.want; got != (c.want != "") || (err != nil) != (c.want != "") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
