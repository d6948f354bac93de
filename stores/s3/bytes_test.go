package s3store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// What was put is what is read, of every size at which something changes, by
// every kind of reader.
func TestBytesAreExact(t *testing.T) {
	t.Parallel()
	const part = parts.MinSize
	all := randomBytes(3*part + 1)
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{PartSize: part})
		for _, size := range []int{
			0, 1, 59, 60, 61, 63, 64, 65, 4096, payload.Small - 1, payload.Small, payload.Small + 1,
			part - 65, part - 64, part - 63, part - 1, part, part + 1, 2*part - 65, 2*part - 64, 2*part - 63, 2 * part, 3*part + 1,
		} {
			value := all[:size]
			for name, how := range map[string]struct {
				r    io.Reader
				size int
				o    PutOptions
			}{
				"known":              {bytes.NewReader(value), size, PutOptions{}},
				"behind other bytes": {behind(value), size, PutOptions{}},
				"unknown, seeks":     {bytes.NewReader(value), -1, PutOptions{}},
				"stream":             {streamed{bytes.NewReader(value)}, size, PutOptions{}},
				"unknown stream":     {streamed{bytes.NewReader(value)}, -1, PutOptions{}},
				"with a checksum":    {streamed{bytes.NewReader(value)}, size, PutOptions{Checksum: minio.ChecksumCRC32C}},
				"more than is meant": {io.MultiReader(bytes.NewReader(value), strings.NewReader("more")), size, PutOptions{Checksum: minio.ChecksumSHA256}},
			} {
				if size > payload.Small && name != "known" && name != "unknown stream" && size%part != 1 && size%part != part-64 {
					continue // the interesting ones are enough
				}
				key := fmt.Sprint(size, " ", name)
				info, err := e.store.Put(t.Context(), writer(33), key, how.r, int64(how.size), how.o)
				if err != nil || info.Size != int64(size) || info.Key != key {
					t.Fatalf("%s: %+v, %v", key, info, err)
				}
				object, err := e.store.Get(t.Context(), writer(33), key, GetOptions{})
				if err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				got, err := io.ReadAll(object)
				object.Close()
				if err != nil || !bytes.Equal(got, value) || object.Info.Size != int64(size) || object.Info.ETag != info.ETag {
					t.Errorf("%s: %d bytes, %v, %+v", key, len(got), err, object.Info)
				}
				if stored, h := e.stored(t, key); h.Kind != layout.Live || !bytes.Equal(stored[layout.HeaderSize:], value) {
					t.Errorf("%s: stored as %d bytes behind %+v", key, len(stored), h)
				}
			}
		}
	})
}

func behind(value []byte) io.Reader {
	r := bytes.NewReader(append([]byte("skipped"), value...))
	_, _ = r.Seek(int64(len("skipped")), io.SeekStart)
	return r
}

// Every range across the header's edge reads what it would read without a
// header, from a store that knows the object and from one that does not.
func TestRanges(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		for _, size := range []int{0, 1, 63, 64, 65, 200} {
			value := string(randomBytes(size))
			key := fmt.Sprint("k", size)
			mustPut(t, e.store, writer(33), key, value)
			e.putBare(t, "bare", value)
			for _, offset := range []int64{0, 1, 2, 59, 60, 61, 63, 64, 65, 66, 127, 128, 129, 199, 200, 201, 300, -1, -2, -63, -64, -65, -128, -136, -199, -200, -201, -264, -300} {
				for _, length := range []int64{0, 1, 2, 63, 64, 65, 200, 500} {
					if offset < 0 && length > 0 || offset == 0 && length == 0 {
						continue
					}
					o := GetOptions{Offset: offset, Length: length}
					want, wantErr := e.bareRange(t, "bare", o)
					if size == 0 && offset < 0 { // stores differ; AWS has no last bytes of nothing
						wantErr = minio.ErrorResponse{StatusCode: http.StatusRequestedRangeNotSatisfiable}
					}
					for name, store := range map[string]*Store{"warm": e.store, "cold": e.newStore(t, Config{ReadWithoutToken: true})} {
						if name == "cold" && offset%3 != 0 && size != 200 {
							continue
						}
						token := writer(33)
						if name == "cold" {
							token = guard.Token{}
						}
						got, err := read(t.Context(), store, token, key, o)
						if got != want || request.IsStatus(err, http.StatusRequestedRangeNotSatisfiable) != request.IsStatus(wantErr, http.StatusRequestedRangeNotSatisfiable) || (err == nil) != (wantErr == nil) {
							t.Errorf("%s, %d bytes, %+v: %d bytes, %v; bare %d bytes, %v", name, size, o, len(got), err, len(want), wantErr)
						}
					}
				}
			}
		}
		for _, o := range []GetOptions{{Length: -1}, {Offset: -1, Length: 1}} {
			if _, err := e.store.Get(t.Context(), writer(33), "k1", o); err == nil {
				t.Errorf("%+v is a range", o)
			}
		}
	})
}

func (e *env) bareRange(tb testing.TB, key string, o GetOptions) (string, error) {
	tb.Helper()
	var opts minio.GetObjectOptions
	switch {
	case o.Offset < 0:
		_ = opts.SetRange(0, o.Offset)
	case o.Length > 0:
		_ = opts.SetRange(o.Offset, o.Offset+o.Length-1)
	default:
		_ = opts.SetRange(o.Offset, 0)
	}
	body, _, _, err := minio.Core{Client: e.bare}.GetObject(tb.Context(), e.bucket, key, opts)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), err
}

// Keys are what they are without a fence, on the same server.
func TestKeys(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for _, key := range []string{
			"a b", " a", "a ", "a+b", "a%b", "a%2Fb", "a%20b", "ü/é€🔒", "a=b&c:d", "a?b#c", "~tilde~", "a/b/c", "/a", "a//b", "a/./b", "a/../b",
			`quote"'<>\`, strings.Repeat("k", 200), "a\tb", "a*b", "dir/", ".hidden", ".fenced/a",
		} {
			e := newEnv(t, s, Config{})
			bare := s.Bucket(t)
			_, bareErr := e.bare.PutObject(t.Context(), bare, key, strings.NewReader("v"), 1, minio.PutObjectOptions{})
			_, err := e.store.Put(t.Context(), writer(33), key, strings.NewReader("v"), 1, PutOptions{})
			if (err == nil) != (bareErr == nil) {
				t.Errorf("%q: %v, without a fence %v", key, err, bareErr)
			}
			if err != nil {
				continue
			}
			expectValue(t, e.store, writer(33), key, "v")
			expectValue(t, e.newStore(t, Config{}), writer(33), key, "v")
			var listed, bareListed []string
			for info, err := range e.store.List(t.Context(), writer(33), ListOptions{Recursive: true}) {
				if err != nil {
					t.Errorf("%q: %v", key, err)
				}
				listed = append(listed, info.Key)
			}
			for info := range e.bare.ListObjectsIter(t.Context(), bare, minio.ListObjectsOptions{Recursive: true}) {
				bareListed = append(bareListed, info.Key)
			}
			if fmt.Sprint(listed) != fmt.Sprint(bareListed) {
				t.Errorf("%q is listed as %q, without a fence as %q", key, listed, bareListed)
			}
			if err := e.store.Delete(t.Context(), writer(33), key, DeleteOptions{}); err != nil {
				t.Errorf("delete %q: %v", key, err)
			}
			_, err = read(t.Context(), e.store, writer(33), key, GetOptions{})
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%q after its delete: %v", key, err)
			}
		}
	})
}

// 300 MiB in parts.
func TestLargeObject(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		const size = 300 << 20
		sent := sha256.New()
		info, err := e.store.Put(t.Context(), writer(33), "large", io.TeeReader(&pattern{left: size}, sent), size, PutOptions{})
		if err != nil || info.Size != size {
			t.Fatal(info, err)
		}
		object, err := e.store.Get(t.Context(), writer(33), "large", GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		got := sha256.New()
		if n, err := io.Copy(got, object); n != size || err != nil || !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
			t.Errorf("%d bytes, %v, or others", n, err)
		}
	})
}

// pattern is left bytes that repeat nowhere soon.
type pattern struct {
	left, at int64
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	for i := range b[:n] {
		b[i] = byte(p.at ^ p.at>>8 ^ p.at>>16*31)
		p.at++
	}
	p.left -= int64(n)
	return n, nil
}
