package s3store

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// listed returns the entries of a listing as "key size", and its errors.
func listed(list iter.Seq2[minio.ObjectInfo, error]) (entries []string, errs []error) {
	for info, err := range list {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, fmt.Sprintf("%s %d", info.Key, info.Size))
	}
	return entries, errs
}

// More keys than a page has, every third deleted.
func TestListManyKeys(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{Parallel: 16})
		const keys = 1300
		var want, doomed []string
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(16)
		for i := range keys {
			key := fmt.Sprintf("many/%04d", i)
			if i%3 == 0 {
				doomed = append(doomed, key)
			} else {
				want = append(want, fmt.Sprintf("%s %d", key, i%7))
			}
			group.Go(func() error {
				_, err := e.store.Put(ctx, writer(33), key, bytes.NewReader(make([]byte, i%7)), int64(i%7), PutOptions{})
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		var deleted []string
		for key, err := range e.store.DeleteMany(t.Context(), writer(33), slices.Values(doomed)) {
			if err != nil {
				t.Errorf("delete %s: %v", key, err)
			}
			deleted = append(deleted, key)
		}
		slices.Sort(deleted)
		if !slices.Equal(deleted, doomed) {
			t.Errorf("%d keys were deleted, want %d", len(deleted), len(doomed))
		}
		for name, o := range map[string]ListOptions{
			"pages of the server's":  {Recursive: true},
			"pages of 7":             {Recursive: true, MaxKeys: 7, Prefix: "many/"},
			"without sub-prefixes":   {Prefix: "many/"},
			"the prefix of all keys": {Prefix: "many/0", Recursive: true},
		} {
			want := slices.DeleteFunc(slices.Clone(want), func(key string) bool { return !strings.HasPrefix(key, o.Prefix) })
			if got, errs := listed(e.store.List(t.Context(), writer(33), o)); !slices.Equal(got, want) || errs != nil {
				t.Errorf("%s: %d keys, %v, want %d", name, len(got), errs, len(want))
			}
		}
		if got, errs := listed(e.store.List(t.Context(), writer(33), ListOptions{})); fmt.Sprint(got) != "[many/ 0]" || errs != nil {
			t.Errorf("from above: %q, %v", got, errs)
		}
		o := ListOptions{Recursive: true, StartAfter: "many/1297"}
		if got, errs := listed(e.store.List(t.Context(), writer(33), o)); fmt.Sprint(got) != "[many/1298 3 many/1299 4]" && fmt.Sprint(got) != "[many/1298 3]" || errs != nil {
			t.Errorf("behind a key: %q, %v", got, errs)
		}
		for range e.store.List(t.Context(), writer(33), ListOptions{Recursive: true}) {
			break // nothing goes on
		}
		for range e.store.DeleteMany(t.Context(), writer(33), slices.Values(doomed)) {
			break
		}
		_, errs := listed(e.store.List(t.Context(), guard.Token{}, ListOptions{}))
		if len(errs) != 1 || !errors.Is(errs[0], guard.ErrNoToken) {
			t.Errorf("without a token: %v", errs)
		}
	})
}

// Objects that were there before: refused, or with Legacy what they are. An
// object's size says nothing then, not even that of a tombstone.
func TestBareObjects(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		legacy := e.newStore(t, Config{Legacy: true})
		mustClaim(t, legacy, writer(33))
		mustPut(t, e.store, writer(33), "framed", "abc")
		mustPut(t, e.store, writer(33), "deleted", "abc")
		if err := e.store.Delete(t.Context(), writer(33), "deleted", DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want := []string{"framed 3"}
		for _, size := range []int{0, 1, 60, 64, 100} {
			e.putBare(t, fmt.Sprintf("z%03d", size), strings.Repeat("x", size))
			want = append(want, fmt.Sprintf("z%03d %d", size, size))
		}
		for range 2 { // by looking, and by what was seen then
			if got, errs := listed(legacy.List(t.Context(), writer(33), ListOptions{Recursive: true})); !slices.Equal(got, want) || errs != nil {
				t.Errorf("listed as %q, %v, want %q", got, errs, want)
			}
		}
		got, errs := listed(e.store.List(t.Context(), writer(33), ListOptions{Recursive: true}))
		if !slices.Contains(got, "framed 3") || len(errs) != 2 || !errors.Is(errors.Join(errs...), guard.ErrUnsupported) {
			t.Errorf("without Legacy: %q, %v", got, errs)
		}
		for _, size := range []int{0, 1, 60, 64, 100} {
			key, value := fmt.Sprintf("z%03d", size), strings.Repeat("x", size)
			_, err := read(t.Context(), e.store, writer(33), key, GetOptions{})
			expect(t, "get "+key, err, guard.ErrUnsupported, guard.Refused)
			_, err = e.store.Stat(t.Context(), writer(33), key, GetOptions{})
			expect(t, "stat "+key, err, guard.ErrUnsupported, guard.Refused)
			_, err = e.store.Put(t.Context(), writer(33), key, strings.NewReader("new"), 3, PutOptions{})
			expect(t, "put "+key, err, guard.ErrUnsupported, guard.Refused)
			expect(t, "delete "+key, e.store.Delete(t.Context(), writer(33), key, DeleteOptions{}), guard.ErrUnsupported, guard.Refused)
			expectValue(t, legacy, writer(33), key, value)
			for _, o := range []GetOptions{{Offset: 1}, {Length: 2}, {Offset: 1, Length: 70}, {Offset: -2}} {
				want, wantErr := e.bareRange(t, key, o)
				if got, err := read(t.Context(), legacy, writer(33), key, o); got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%s %+v: %q, %v; want %q, %v", key, o, got, err, want, wantErr)
				}
			}
			info, err := legacy.Stat(t.Context(), writer(33), key, GetOptions{})
			if err != nil || info.Size != int64(size) || info.ContentType != "text/plain" {
				t.Errorf("%s: %+v, %v", key, info, err)
			}
			_, err = legacy.Put(t.Context(), writer(33), key, strings.NewReader("new"), 3, PutOptions{IfMatch: info.ETag})
			expect(t, "put over "+key, err, nil, guard.Applied)
			expectValue(t, e.store, writer(33), key, "new")
		}
		e.putBare(t, "doomed", "x")
		expect(t, "delete", legacy.Delete(t.Context(), writer(33), "doomed", DeleteOptions{}), nil, guard.Applied)
		if _, h := e.stored(t, "doomed"); h.Kind != layout.Tombstone {
			t.Errorf("deleted as %+v", h)
		}
	})
}

// An object that starts like a framed one and is none is not touched.
func TestDamagedObjects(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{Legacy: true})
		mustPut(t, e.store, writer(33), "good", "abc")
		data, _ := e.stored(t, "good")
		data[25] ^= 1
		e.putBare(t, "damaged", string(data))
		_, err := read(t.Context(), e.store, writer(33), "damaged", GetOptions{})
		expect(t, "get", err, layout.ErrDamaged, guard.Refused)
		_, err = e.store.Put(t.Context(), writer(33), "damaged", strings.NewReader("new"), 3, PutOptions{})
		expect(t, "put", err, layout.ErrDamaged, guard.Refused)
		got, errs := listed(e.store.List(t.Context(), writer(33), ListOptions{}))
		if fmt.Sprint(got) != "[good 3]" || len(errs) != 1 || !errors.Is(errs[0], layout.ErrDamaged) {
			t.Errorf("listed as %q, %v", got, errs)
		}
		e.putBare(t, layout.MarkKey("stock"), "{}")
		stock := writer(1)
		stock.Resource = "stock"
		expect(t, "claim at a damaged mark", e.store.Claim(t.Context(), stock), layout.ErrBadMark, guard.NotApplied)
	})
}

// After an adoption numbers start again, and nothing of the old issuer is
// carried out at a key that the new one has written.
func TestAdopt(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		ctx := t.Context()
		mustPut(t, e.store, writer(33), "k", "old")
		held := e.link.Hold(s3link.Op(s3link.PutObject), 1)
		done := make(chan error, 1)
		go func() { done <- putB.do(ctx, e.store, writer(33)) }()
		<-held.Taken()
		admin := e.newStore(t, Config{})
		if err := admin.Adopt(ctx, "orders", "j"); err != nil {
			t.Fatal(err)
		}
		first := guard.Token{Resource: "orders", Number: 1, Mode: guard.Exclusive, Holder: "n", Issuer: "j"}
		current := e.newStore(t, Config{})
		mustPut(t, current, first, "k", "new")
		held.Abandon()
		expect(t, "the old issuer's late write", <-done, guard.ErrForeign, guard.Unknown)
		if status, _, err := held.Deliver(ctx); status != 412 || err != nil {
			t.Errorf("it is answered by %d, %v", status, err)
		}
		expect(t, "the old issuer's next write", putB.do(ctx, e.store, writer(99)), guard.ErrForeign, guard.Refused)
		expectValue(t, current, first, "k", "new")
		if _, h := e.stored(t, "k"); h.Generation != 1 || h.Number != 1 {
			t.Errorf("%+v", h)
		}
	})
}
