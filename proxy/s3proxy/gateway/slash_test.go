package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// What a store of files cannot hold is refused before a byte of the body is read,
// however long it is, with what SDKs do not repeat. 1 MiB is as much as is kept to be
// sent again, and more is streamed.
func TestKeyThatEndsInSlash(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.proxy(t)
	if s.server.Name() != "versitygw" {
		return
	}
	p.put(t, "file", "v", number(1))
	s.link.Forget()
	for _, key := range []string{"/folder/", "/file/"} {
		for _, size := range []int64{0, 1, mib, mib + 1, 1 << 30} {
			body := &counted{r: io.LimitReader(zeros{}, size)}
			p.send(t, http.MethodPut, key, body, size, "UNSIGNED-PAYLOAD", map[string]string{"Expect": "100-continue"}, number(1)).
				expect(t, key, http.StatusBadRequest, "DirectoryObjectContainsData")
			if body.n > 0 {
				t.Errorf("%d of %d bytes were sent", body.n, size)
			}
		}
		copies(t, p, p.bucket+"/file", strings.TrimPrefix(key, "/"), nil, number(1)).expect(t, "copy", http.StatusBadRequest, "DirectoryObjectContainsData")
		p.do(t, http.MethodPost, key+"?uploads=", "", nil, number(1)).expect(t, "upload", http.StatusBadRequest, "DirectoryObjectContainsData")
		p.do(t, http.MethodDelete, key, "", nil, number(1)).expect(t, "delete", http.StatusBadRequest, "DirectoryObjectContainsData")
	}
	if n := s.link.Count(s3link.PutObject); n != 1 {
		t.Errorf("the store was asked %d times, want once", n)
	}
	p.holds(t, "file", "v", number(1))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
