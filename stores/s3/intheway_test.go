package s3store

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// To a store of files a key that ends in a slash is a folder, with a file in its way or
// not. It says so before it has read the body, so that a long one breaks off without an
// answer, which looks as if the store was not there. Nothing of it is read here, and
// the answer is one that nobody tries again.
func TestKeysThatEndInSlashes(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustPut(t, e.store, writer(33), "file", "v")
		for _, key := range []string{"folder/", "file/", "file/of/none/"} {
			if s.Name() != "versitygw" { // to others they are keys like others
				if key == "folder/" {
					mustPut(t, e.store, writer(33), key, "v")
					expectValue(t, e.store, writer(33), key, "v")
				}
				continue
			}
			body := &counting{r: strings.NewReader(big)}
			for what, act := range map[string]func() error{
				"put": func() error {
					_, err := e.store.Put(t.Context(), writer(33), key, body, int64(len(big)), PutOptions{})
					return err
				},
				"put of nothing": func() error {
					_, err := e.store.Put(t.Context(), writer(33), key, strings.NewReader(""), 0, PutOptions{})
					return err
				},
				"check": func() error { return e.store.Check(t.Context(), writer(33), key, CheckOptions{}) },
				"copy": func() error {
					_, err := e.store.Copy(t.Context(), writer(33), CopyDest{Key: key}, CopySource{Key: "file"})
					return err
				},
				"delete": func() error { return e.store.Delete(t.Context(), writer(33), key, DeleteOptions{}) },
				"create upload": func() error {
					_, err := e.store.CreateUpload(t.Context(), writer(33), key, PutOptions{})
					return err
				},
			} {
				err := act()
				if !request.IsStatus(err, http.StatusBadRequest) || !request.IsCode(err, "DirectoryObjectContainsData") || guard.OutcomeOf(err) != guard.NotApplied {
					t.Errorf("%s %s: %v (%v)", what, key, err, guard.OutcomeOf(err))
				}
			}
			if body.n > 0 {
				t.Errorf("%s: %d bytes were read", key, body.n)
			}
			if _, err := read(t.Context(), e.store, writer(33), key, GetOptions{}); err == nil {
				t.Errorf("%s holds something", key)
			}
		}
		expectValue(t, e.store, writer(33), "file", "v")
	})
}

// An answer that has nothing to do with the slash, as to credentials that have expired,
// is none to the question whether the server holds such keys (I3).
func TestSlashesAskedInVain(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustPut(t, e.store, writer(33), "file", "v")
		for n := 1; n <= 2; n++ {
			e.link.Answer(s3link.Op(s3link.PutObject), n, http.StatusBadRequest, "ExpiredToken")
		}
		if _, err := e.store.tested.Slashes(t.Context(), e.store.parts); !request.IsCode(err, "ExpiredToken") {
			t.Errorf("credentials have expired: %v", err)
		}
		holds, err := e.store.tested.Slashes(t.Context(), e.store.parts)
		if want := s.Name() != "versitygw"; err != nil || holds != want {
			t.Errorf("%s holds them: %v, %v", s.Name(), holds, err)
		}
	})
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// A creation that is refused time after time although nothing is to be seen at the key
// loses to no other write: something that is no object is in its way. That is no
// conflict, which clients would try again and again.
func TestSomethingInTheWay(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{PartSize: parts.MinSize})
	mustClaim(t, e.store, writer(33))
	for n := range request.MaxConflicts {
		e.link.Answer(s3link.Op(s3link.PutObject), n+1, http.StatusPreconditionFailed, minio.PreconditionFailed)
	}
	_, err := e.store.Put(t.Context(), writer(33), "k", strings.NewReader("x"), 1, PutOptions{})
	expect(t, "put", err, guard.ErrUnsupported, guard.Refused)
	mustPut(t, e.store, writer(33), "k", "x")
}
