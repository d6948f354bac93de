package s3store

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// A check is as new as what is in the bucket, and the write behind it is one
// request.
func TestCheck(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		another := e.newStore(t, Config{})
		check := func(what string, token guard.Token, key string, reason error) {
			t.Helper()
			outcome := guard.Refused
			if reason == nil {
				outcome = guard.Applied
			}
			expect(t, what, e.store.Check(t.Context(), token, key, CheckOptions{}), reason, outcome)
		}
		check("first", writer(33), "k", nil)
		e.link.Forget()
		check("again", writer(33), "k", nil)
		mustPut(t, e.store, writer(33), "k", "v")
		ops := e.link.Ops()
		if slices.Sort(ops); !slices.Equal(ops, []string{s3link.GetObject, s3link.GetObject, s3link.PutObject}) {
			t.Errorf("a check and a write take %q", ops)
		}
		mustClaim(t, another, writer(34))
		check("after a newer claim elsewhere", writer(33), "k", guard.ErrStale)
		check("of the newer", writer(34), "k", nil)
		other := writer(1)
		other.Resource = "invoices"
		check("of another resource", other, "k", guard.ErrNoToken)
		check("of a shared token", reader(34), "k", guard.ErrReadOnly)
		check("of none", guard.Token{}, "k", guard.ErrMalformed)
		check("of the fence's own", writer(34), ".fence/k", guard.ErrUnsupported)
		e.putBare(t, "bare", "v")
		check("of a bare object", writer(34), "bare", guard.ErrUnsupported)
		mustPut(t, another, writer(34), "k", "w")
		check("of a key that was written", writer(34), "k", nil)
		if err := e.store.Adopt(t.Context(), "orders", "j"); err != nil {
			t.Fatal(err)
		}
		check("after an adoption", writer(34), "k", guard.ErrForeign)
	})
}

// Of several tokens the one counts whose resource the key is bound to, or
// belongs to.
func TestChoose(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{Prefixes: map[string]string{"in/": "invoices", "in/or/": "orders"}})
		orders, invoices, third := writer(33), writer(7), writer(8)
		invoices.Resource, third.Resource = "invoices", "third"
		mustPut(t, e.store, orders, "k", "v")
		mustPut(t, e.store, orders, "deleted", "v")
		if err := e.store.Delete(t.Context(), orders, "deleted", DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cold := e.newStore(t, Config{})
		for _, c := range []struct {
			store  *Store
			key    string
			tokens []guard.Token
			want   guard.Token
		}{
			{e.store, "in/k", []guard.Token{orders, invoices}, invoices},
			{e.store, "in/or/k", []guard.Token{orders, invoices}, orders},
			{e.store, "in/k", []guard.Token{orders, third}, guard.Token{}},
			{e.store, "in/k", []guard.Token{orders}, orders}, // refused where it is used
			{e.store, "k", []guard.Token{third, orders}, orders},
			{cold, "k", []guard.Token{third, orders}, orders},
			{cold, "deleted", []guard.Token{third, orders}, orders},
			{cold, "k", []guard.Token{third, invoices}, guard.Token{}},
			{cold, "nothing", []guard.Token{third, orders}, guard.Token{}},
			{cold, ".fence/k", []guard.Token{third, orders}, guard.Token{}},
			{cold, "k", nil, guard.Token{}},
		} {
			got, err := c.store.Choose(t.Context(), c.tokens, c.key)
			want := guard.ErrNoToken
			if strings.HasPrefix(c.key, ".fence/") {
				want = guard.ErrUnsupported
			}
			if got != c.want || (c.want == guard.Token{}) != errors.Is(err, want) {
				t.Errorf("of %v for %s: %v, %v, want %v", c.tokens, c.key, got, err, c.want)
			}
		}
	})
}

// A payload is not read for a token that is known to be refused.
func TestRefusedBeforeThePayload(t *testing.T) {
	t.Parallel()
	e, a, _ := pair(t, testenv.S3(t))
	id := mustCreate(t, a, writer(33))
	mustClaim(t, a, writer(34))
	e.link.Forget()
	untouched := failingReader{errors.New("the payload was read")}
	_, err := a.Put(t.Context(), writer(33), "k", untouched, 5, PutOptions{})
	expect(t, "put", err, guard.ErrStale, guard.Refused)
	_, err = a.UploadPart(t.Context(), writer(33), "k", id, 1, untouched, 5)
	expect(t, "part", err, guard.ErrStale, guard.Refused)
	if n := e.link.Count(s3link.PutObject, s3link.UploadPart); n != 0 {
		t.Errorf("%d payloads were sent", n)
	}
}

// A mark that is gone, or was put back to what it was before, is claimed again: it
// refuses none that would be admitted (I3).
func TestCheckOfAnOlderMark(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustClaim(t, e.newStore(t, Config{}), writer(33))
		before, _ := e.stored(t, layout.MarkKey("orders"))
		mustPut(t, e.store, writer(34), "k", "v")
		if err := e.bare.RemoveObject(t.Context(), e.bucket, layout.MarkKey("orders"), minio.RemoveObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		expect(t, "the mark is gone", e.store.Check(t.Context(), writer(34), "k", CheckOptions{}), nil, guard.Applied)
		e.putBare(t, layout.MarkKey("orders"), string(before))
		expect(t, "the mark is an older one", e.store.Check(t.Context(), writer(34), "k", CheckOptions{}), nil, guard.Applied)
		expect(t, "a stale token", e.newStore(t, Config{}).Check(t.Context(), writer(33), "k", CheckOptions{}), guard.ErrStale, guard.Refused)
	})
}
