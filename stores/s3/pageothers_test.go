package s3store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// A bucket in which only some prefixes are fenced: what is not is listed as it is,
// and nothing else is done to it.
func TestOnlyPrefixes(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		c := Config{OnlyPrefixes: true, ReadWithoutToken: true, Prefixes: map[string]string{"in/side/": "orders"}}
		e := newEnv(t, s, c)
		tombstone := strings.Repeat("x", 60)
		for key, value := range map[string]string{"out/60": tombstone, "out/3": "abc", "in/60": tombstone, "x60": tombstone} {
			e.putBare(t, key, value)
		}
		mustPut(t, e.store, writer(33), "in/side/k", "abc")
		mustPut(t, e.store, writer(33), "in/side/gone/k", "abc")
		if err := e.store.Delete(t.Context(), writer(33), "in/side/gone/k", DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for q, want := range map[PageOptions]string{
			{}:                                     "[in/60 60 in/side/k 3 out/3 3 out/60 60 x60 60]",
			{Delimiter: "/"}:                       "[x60 60 in/ out/]",
			{Delimiter: "/", Prefix: "in/"}:        "[in/60 60 in/side/]",
			{Delimiter: "/", Prefix: "in/side/"}:   "[in/side/k 3]",
			{Delimiter: "/", Prefix: ".fence/"}:    "[]",
			{Delimiter: "e", Prefix: ".f"}:         "[]",
			{Delimiter: "de", Prefix: "in/"}:       "[in/60 60 in/side]",
			{Delimiter: "/", StartAfter: "in/60"}:  "[x60 60 in/ out/]",
			{Delimiter: "/", StartAfter: "out/60"}: "[x60 60]",
		} {
			if q.StartAfter == "in/60" {
				continue // servers differ
			}
			page, err := e.store.ListPage(t.Context(), writer(33), q)
			if err != nil || fmt.Sprint(page.entries()) != want {
				t.Errorf("%+v: %q, %v, want %s", q, page.entries(), err, want)
			}
		}
		if got, errs := listed(e.store.List(t.Context(), writer(33), ListOptions{Prefix: "in/"})); fmt.Sprint(got) != "[in/60 60 in/side/ 0]" || errs != nil {
			t.Errorf("listed: %q, %v", got, errs)
		}
		_, err := e.store.Put(t.Context(), writer(33), "out/k", nil, 0, PutOptions{})
		expect(t, "put", err, guard.ErrUnsupported, guard.Refused)
		expect(t, "check", e.store.Check(t.Context(), writer(33), "out/k", CheckOptions{}), guard.ErrUnsupported, guard.Refused)
		_, err = e.store.Stat(t.Context(), writer(33), "out/3", GetOptions{})
		expect(t, "stat", err, guard.ErrUnsupported, guard.Refused)
		_, err = e.store.Get(t.Context(), guard.Token{}, "out/3", GetOptions{})
		expect(t, "read without a token", err, guard.ErrUnsupported, guard.Refused)
		_, err = e.store.Copy(t.Context(), writer(33), CopyDest{Key: "in/side/c"}, CopySource{Key: "out/3"})
		expect(t, "copy", err, guard.ErrUnsupported, guard.Refused)
		_, err = e.store.CreateUpload(t.Context(), writer(33), "out/k", PutOptions{})
		expect(t, "create upload", err, guard.ErrUnsupported, guard.Refused)
	})
}

// With Legacy objects an entry's size says nothing: under a common prefix either.
func TestPagesOfBareObjects(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		legacy := e.newStore(t, Config{Legacy: true})
		e.putBare(t, "a/60", strings.Repeat("x", 60))
		e.putBare(t, "b-60", strings.Repeat("x", 60))
		e.putBare(t, "c/3", "abc")
		mustPut(t, e.store, writer(33), "d/3", "abc")
		mustPut(t, e.store, writer(33), "e/3", "abc")
		if err := e.store.Delete(t.Context(), writer(33), "e/3", DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for q, want := range map[PageOptions]string{
			{}:               "[a/60 60 b-60 60 c/3 3 d/3 3]",
			{Delimiter: "/"}: "[b-60 60 a/ c/ d/]",
			{Delimiter: "-"}: "[a/60 60 c/3 3 d/3 3 b-]",
		} {
			page, err := legacy.ListPage(t.Context(), writer(33), q)
			if err != nil || fmt.Sprint(page.entries()) != want {
				t.Errorf("%+v: %q, %v, want %s", q, page.entries(), err, want)
			}
		}
	})
}
