package s3store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// entries are a page as one sees it.
func (p *Page) entries() (all []string) {
	for _, o := range p.Objects {
		all = append(all, fmt.Sprintf("%s %d", o.Key, o.Size))
	}
	return append(all, p.Prefixes...)
}

// I7: page by page what the server would list if there were no fence: the same
// payloads bare in another bucket, without what was deleted.
func TestPagesAreTheServers(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, bare := newEnv(t, s, Config{}), newEnv(t, s, Config{})
		live := []string{"a/1", "a/2", "a/b/c", "a-1", "a-2", "a--3", "b", "b-x/y-z", "c/d/e/f", "d e+%25&=", "e/ü/ñ", "~", "z/1", "z/2"}
		dead := []string{"a/0", "a/3", "a-0", "aa/1", "aa/2", "aa/b/c", "c/c/1", "y-1", "zz-", "zz/1"}
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(8)
		for i, key := range append(slices.Clone(live), dead...) {
			group.Go(func() error {
				value := strings.Repeat("x", i)
				_, err := e.store.Put(ctx, writer(33), key, strings.NewReader(value), int64(i), PutOptions{})
				if err == nil && slices.Contains(dead, key) {
					return e.store.Delete(ctx, writer(33), key, DeleteOptions{})
				}
				bare.putBare(t, key, value)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, q := range []PageOptions{
			{},
			{Delimiter: "/"},
			{Delimiter: "/", Prefix: "a/"},
			{Delimiter: "/", Prefix: "a"},
			{Delimiter: "/", Prefix: "c/"},
			{Delimiter: "-"},
			{Delimiter: "-", Prefix: "a-"},
			{Delimiter: "/", StartAfter: "a/2"},
			{Delimiter: "-", StartAfter: "a-1"},
			{StartAfter: "b"},
			{StartAfter: "zzz"},
			{Prefix: "nothing", Delimiter: "/"},
			{Prefix: "aa/", Delimiter: "/"},
		} {
			for _, q.Max = range []int{0, 1, 2, 3, 7} {
				for _, q.V1 = range []bool{false, true} {
					samePages(t, e.store, bare, q)
				}
			}
		}
		// By any store, whatever it has seen.
		first, err := e.store.ListPage(t.Context(), writer(33), PageOptions{Max: 2})
		if err != nil || first.Continuation == "" {
			t.Fatal(first, err)
		}
		second, err := e.newStore(t, Config{}).ListPage(t.Context(), writer(33), PageOptions{Max: 2, Continuation: first.Continuation, StartAfter: "zzz"})
		if err != nil || fmt.Sprint(second.entries()) != "[a-2 4 a/1 0]" {
			t.Errorf("behind %q: %q, %v", first.entries(), second.entries(), err)
		}
		for _, bad := range []string{"x", "!", "Aa"} {
			if _, err := e.store.ListPage(t.Context(), writer(33), PageOptions{Continuation: bad}); !errors.Is(err, ErrContinuation) {
				t.Errorf("continuation %q: %v", bad, err)
			}
		}
		_, err = e.store.ListPage(t.Context(), guard.Token{}, PageOptions{})
		expect(t, "without a token", err, guard.ErrNoToken, guard.Refused)
	})
}

// samePages walks both listings to their end.
func samePages(t *testing.T, store *Store, bare *env, q PageOptions) {
	t.Helper()
	name := fmt.Sprintf("%+v", q)
	for pages := 0; ; pages++ {
		got, err := store.ListPage(t.Context(), writer(33), q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := bare.page(t, q)
		q.StartAfter, q.Continuation = got.NextMarker, got.Continuation
		if q.V1 {
			q.Continuation = ""
		}
		same := slices.Equal(got.entries(), want.entries())
		if want.Truncated && !got.Truncated { // versitygw says so for keys that do not have the prefix
			q.StartAfter = want.NextMarker
			rest := bare.page(t, PageOptions{V1: true, Prefix: q.Prefix, Delimiter: q.Delimiter, StartAfter: want.NextMarker})
			same = same && len(rest.entries()) == 0
		} else {
			same = same && got.Truncated == want.Truncated
		}
		if !same {
			t.Errorf("%s: page %d is %q, truncated %v, want %q, %v", name, pages, got.entries(), got.Truncated, want.entries(), want.Truncated)
			return
		}
		if !got.Truncated {
			return
		}
	}
}

// page is a page of the server's.
func (e *env) page(t *testing.T, q PageOptions) Page {
	t.Helper()
	core := minio.Core{Client: e.bare}
	if q.V1 {
		r, err := core.ListObjects(e.bucket, q.Prefix, q.StartAfter, q.Delimiter, q.Max)
		if err != nil {
			t.Fatal(err)
		}
		return Page{Objects: r.Contents, Prefixes: prefixes(r.CommonPrefixes), Truncated: r.IsTruncated, NextMarker: r.NextMarker}
	}
	if q.Continuation != "" { // the server has its own
		q.StartAfter = lastOf(q)
	}
	r, err := core.ListObjectsV2(e.bucket, q.Prefix, q.StartAfter, "", q.Delimiter, q.Max)
	if err != nil {
		t.Fatal(err)
	}
	p := Page{Objects: r.Contents, Prefixes: prefixes(r.CommonPrefixes), Truncated: r.IsTruncated}
	for _, name := range append(prefixes(r.CommonPrefixes), last(r.Contents)) {
		p.NextMarker = max(p.NextMarker, name)
	}
	return p
}

func last(objects []minio.ObjectInfo) string {
	if len(objects) == 0 {
		return ""
	}
	return objects[len(objects)-1].Key
}

// lastOf returns what the page before ended with: continuation tokens of the
// bare server are its own.
func lastOf(q PageOptions) string {
	name, _ := continued(q.Continuation)
	return name
}

func prefixes(list []minio.CommonPrefix) (names []string) {
	for _, p := range list {
		names = append(names, p.Prefix)
	}
	slices.Sort(names)
	return names
}

// A full page of the largest size, among tombstones and prefixes, in as few
// requests as that takes.
func TestPageOfAThousand(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	e := newEnv(t, s, Config{Parallel: 16})
	mustClaim(t, e.store, writer(33))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range 1105 {
		group.Go(func() error {
			key := fmt.Sprintf("many/%04d", i)
			if i < 100 {
				return e.store.Delete(ctx, writer(33), key, DeleteOptions{})
			}
			_, err := e.store.Put(ctx, writer(33), key, nil, 0, PutOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	e.link.Forget()
	page, err := e.store.ListPage(t.Context(), writer(33), PageOptions{Prefix: "many/"})
	if err != nil || len(page.Objects) != 1000 || !page.Truncated || page.NextMarker != "many/1099" {
		t.Errorf("%d objects, truncated %v behind %q, %v", len(page.Objects), page.Truncated, page.NextMarker, err)
	}
	if n := e.link.Count(); n != 2 {
		t.Errorf("it takes %d requests, want 2", n)
	}
	page, err = e.store.ListPage(t.Context(), writer(33), PageOptions{Prefix: "many/", Continuation: page.Continuation})
	if err != nil || len(page.Objects) != 5 || page.Truncated {
		t.Errorf("the rest: %d objects, truncated %v, %v", len(page.Objects), page.Truncated, err)
	}
	page, err = e.store.ListPage(t.Context(), writer(33), PageOptions{Delimiter: "/"})
	if err != nil || fmt.Sprint(page.entries()) != "[many/]" || page.Truncated {
		t.Errorf("from above, behind 100 tombstones: %q, %v", page.entries(), err)
	}
}

// A listing ends with its context, and its connection is used again.
func TestPageEnds(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	e := newEnv(t, s, Config{})
	mustClaim(t, e.store, writer(33))
	held := e.link.Hold(s3link.Op(s3link.ListObjects), 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.store.ListPage(ctx, writer(33), PageOptions{}); !errors.Is(err, ctx.Err()) {
		t.Errorf("listing whose context ends: %v", err)
	}
	held.Abandon()
	e.link.Answer(s3link.Op(s3link.ListObjects), 1, 403, "AccessDenied")
	if _, err := e.store.ListPage(t.Context(), writer(33), PageOptions{}); err == nil {
		t.Error("a listing that is denied is no error")
	}
}
