package s3store

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// To versitygw a file is in the way of the key that has a slash more: nothing is to
// be read there, and nothing can be created. That is no conflict, which clients would
// try again and again.
func TestFileInTheWay(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		if s.Name() != "versitygw" { // to others they are two keys
			return
		}
		e := newEnv(t, s, Config{})
		mustPut(t, e.store, writer(33), "file", "v")
		_, err := e.store.Put(t.Context(), writer(33), "file/", strings.NewReader("x"), 1, PutOptions{})
		expect(t, "put", err, guard.ErrUnsupported, guard.Refused)
		expect(t, "delete", e.store.Delete(t.Context(), writer(33), "file/", DeleteOptions{}), guard.ErrUnsupported, guard.Refused)
		expectValue(t, e.store, writer(33), "file", "v")
	})
}
