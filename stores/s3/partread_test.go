package s3store

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// What is read of a payload is told, so that a Content-Range can be made of it.
func TestWhatIsRead(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, a, _ := pair(t, s)
		one, two := strings.Repeat("1", parts.MinSize), strings.Repeat("2", parts.MinSize)
		id := mustCreate(t, a, writer(33))
		list := []minio.CompletePart{mustUpload(t, a, writer(33), id, 1, one), mustUpload(t, a, writer(33), id, 2, two), mustUpload(t, a, writer(33), id, 3, "end")}
		if _, err := completeBy(t, a, writer(33), id, list...); err != nil {
			t.Fatal(err)
		}
		whole := one + two + "end"
		mustPut(t, a, writer(33), "small", "0123456789")
		mustPut(t, a, writer(33), "empty", "")
		const size = 2*parts.MinSize + 3
		for name, c := range map[string]struct {
			key            string
			o              GetOptions
			offset, length int64
			parts          int
		}{
			"all":                    {"k", GetOptions{}, 0, size, 0},
			"part 1":                 {"k", GetOptions{PartNumber: 1}, 0, parts.MinSize, 3},
			"part 2":                 {"k", GetOptions{PartNumber: 2}, parts.MinSize, parts.MinSize, 3},
			"part 3":                 {"k", GetOptions{PartNumber: 3}, 2 * parts.MinSize, 3, 3},
			"from the front":         {"k", GetOptions{Length: 7}, 0, 7, 0},
			"from the middle":        {"k", GetOptions{Offset: 7, Length: 9}, 7, 9, 0},
			"to the end":             {"k", GetOptions{Offset: size - 2}, size - 2, 2, 0},
			"more than there is":     {"k", GetOptions{Offset: size - 2, Length: 9}, size - 2, 2, 0},
			"the last bytes":         {"k", GetOptions{Offset: -2}, size - 2, 2, 0},
			"front of a small one":   {"small", GetOptions{Length: 99}, 0, 10, 0},
			"last bytes, too many":   {"small", GetOptions{Offset: -99}, 0, 10, 0},
			"last bytes, and header": {"small", GetOptions{Offset: -20}, 0, 10, 0},
			"part 1 of no parts":     {"small", GetOptions{PartNumber: 1}, 0, 10, 0},
			"part 1 of nothing":      {"empty", GetOptions{PartNumber: 1}, 0, 0, 0},
			"empty":                  {"empty", GetOptions{}, 0, 0, 0},
		} {
			for _, store := range []*Store{a, e.newStore(t, Config{})} {
				object, err := store.Get(t.Context(), writer(33), c.key, c.o)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				data, err := io.ReadAll(object)
				object.Close()
				if err != nil || object.Offset != c.offset || object.Length != c.length || object.Parts != c.parts || int64(len(data)) != c.length {
					t.Errorf("%s: %d bytes, %v, told %d from %d on, %d parts, want %d from %d on, %d", name, len(data), err, object.Length, object.Offset, object.Parts, c.length, c.offset, c.parts)
				}
				if c.key == "k" && (object.Info.Size != size || string(data) != whole[c.offset:c.offset+c.length]) {
					t.Errorf("%s: %.40q of %d bytes", name, data, object.Info.Size)
				}
			}
		}
		for name, o := range map[string]GetOptions{"part 4": {PartNumber: 4}, "part 2 of no parts": {PartNumber: 2}} {
			key := map[string]string{"part 4": "k", "part 2 of no parts": "small"}[name]
			if _, err := a.Get(t.Context(), writer(33), key, o); !request.IsStatus(err, 416) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, o := range []GetOptions{{PartNumber: -1}, {PartNumber: 1, Offset: 1}, {PartNumber: 1, Length: 1}} {
			if _, err := a.Get(t.Context(), writer(33), "k", o); err == nil {
				t.Errorf("%+v is no error", o)
			}
		}
		if err := a.Delete(t.Context(), writer(33), "k", DeleteOptions{}); err != nil {
			t.Error(err)
		}
		for n := 1; n < 4; n++ {
			_, err := a.Get(t.Context(), writer(33), "k", GetOptions{PartNumber: n})
			expect(t, fmt.Sprintf("part %d of what was deleted", n), err, ErrNotFound, guard.Unknown)
		}
	})
}

// The conditions of a read count for Stat too.
func TestStatConditions(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		etag := mustPut(t, e.store, writer(33), "k", "v").ETag
		info, err := e.store.Stat(t.Context(), writer(33), "k", GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now, past := info.LastModified, info.LastModified.Add(-time.Hour) // servers differ on what is to come
		for name, c := range map[string]struct {
			o    GetOptions
			want error
		}{
			"match":              {GetOptions{IfMatch: `"` + etag + `"`}, nil},
			"any":                {GetOptions{IfMatch: "*"}, nil},
			"another":            {GetOptions{IfMatch: "no"}, ErrPrecondition},
			"not another":        {GetOptions{IfNoneMatch: "no"}, nil},
			"not this":           {GetOptions{IfNoneMatch: etag}, ErrNotModified},
			"none":               {GetOptions{IfNoneMatch: "*"}, ErrNotModified},
			"modified since":     {GetOptions{IfModifiedSince: past}, nil},
			"not modified since": {GetOptions{IfModifiedSince: now}, ErrNotModified},
			"unmodified since":   {GetOptions{IfUnmodifiedSince: past}, ErrPrecondition},
		} {
			_, err := e.store.Stat(t.Context(), writer(33), "k", c.o)
			expect(t, name, err, c.want, guard.OutcomeOf(c.want))
			if name == "not modified since" {
				continue // versitygw compares with what it does not tell, parts of a second
			}
			_, err = read(t.Context(), e.store, writer(33), "k", c.o)
			expect(t, name+", read", err, c.want, guard.OutcomeOf(c.want))
		}
	})
}
