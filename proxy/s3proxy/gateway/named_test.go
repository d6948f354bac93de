package gateway

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// behindOlder is a proxy through which a holder has read a key that an older one has
// written since, and another through which it has looked again: as behind a load
// balancer. The ETag is what it saw there.
func behindOlder(t *testing.T) (p place, etag string) {
	t.Helper()
	s := newSite(t)
	p = s.proxy(t)
	old, second := s.proxy(t), s.proxy(t)
	old.put(t, "k", "A", number(1))
	p.holds(t, "k", "A", number(2))
	old.put(t, "k", "late", number(1))
	a := second.do(t, http.MethodGet, "/k", "", nil, number(2))
	a.expect(t, "read", http.StatusOK, "")
	return p, a.header.Get("ETag")
}

// Whoever names the very state that is there has seen it, through whichever proxy: its
// write is not refused for what another one remembers (I3, I7).
func TestNamedStateIsWritten(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("n", smallBody+1)
	for what, row := range map[string]struct {
		body   string
		header map[string]string
	}{"short": {"n", nil}, "large": {large, nil}, "expected": {"n", map[string]string{"Expect": "100-continue"}}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			with := func(name, value string) map[string]string {
				h := map[string]string{name: value}
				maps.Copy(h, row.header)
				return h
			}
			p, etag := behindOlder(t)
			p.do(t, http.MethodPut, "/k", row.body, with("If-Match", etag), number(2)).expect(t, "what is there named", http.StatusOK, "")
			p.holds(t, "k", row.body, number(2))

			p, etag = behindOlder(t)
			// What is false stays false, however often it is sent.
			for range 2 {
				p.do(t, http.MethodPut, "/k", row.body, with("If-Match", `"another"`), number(2)).
					expect(t, "another state named", http.StatusPreconditionFailed, "PreconditionFailed")
				p.do(t, http.MethodPut, "/k", row.body, with("If-None-Match", "*"), number(2)).
					expect(t, "none named", http.StatusPreconditionFailed, "PreconditionFailed")
			}
			p.do(t, http.MethodPut, "/k", row.body, with("If-Match", etag), number(2)).expect(t, "what is there named then", http.StatusOK, "")
		})
	}
	// "*" names no state.
	t.Run("any", func(t *testing.T) {
		t.Parallel()
		p, _ := behindOlder(t)
		p.do(t, http.MethodPut, "/k", large, map[string]string{"If-Match": "*"}, number(2)).
			expect(t, "any state", http.StatusPreconditionFailed, "PreconditionFailed")
		p.holds(t, "k", "late")
	})
}

// So it is with an upload: the older write is nothing to its beginning and its parts, which
// overwrite nothing, and to its end if that names what is there.
func TestNamedStateIsCompleted(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		p, etag := behindOlder(t)
		id := create(t, p, "k", number(2))
		body := strings.Repeat("n", smallBody+1)
		part := upload(t, p, "k", id, 1, body, number(2))
		core := p.client(t, number(2))
		var o minio.PutObjectOptions
		if named {
			o.SetMatchETag(strings.Trim(etag, `"`))
		}
		_, err := core.CompleteMultipartUpload(t.Context(), p.bucket, "k", id, []minio.CompletePart{part}, o)
		if !named {
			refusedWith(t, "a blind end", err, "PreconditionFailed")
			p.holds(t, "k", "late")
			continue
		}
		if err != nil {
			t.Error(err)
		}
		p.holds(t, "k", body, number(2))
	}
}
