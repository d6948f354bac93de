package s3store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
)

// The caller's own conditions on writes are about objects, not about what
// stands for none.
func TestConditionsOfWrites(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{PartSize: parts.MinSize})
		put := func(store *Store, key, value string, o PutOptions) error {
			_, err := store.Put(t.Context(), writer(33), key, strings.NewReader(value), int64(len(value)), o)
			return err
		}
		for _, value := range []string{"new", big} {
			for name, store := range map[string]*Store{"warm": e.store, "cold": e.newStore(t, Config{PartSize: parts.MinSize})} {
				key := name + value[:3]
				expect(t, "create", put(store, key, value, PutOptions{IfNoneMatch: "*"}), nil, guard.Applied)
				expect(t, "create again", put(store, key, value, PutOptions{IfNoneMatch: "*"}), ErrPrecondition, guard.NotApplied)
				info, err := e.store.Stat(t.Context(), writer(33), key, GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				expect(t, "delete another", store.Delete(t.Context(), writer(33), key, DeleteOptions{IfMatch: "0123"}), ErrPrecondition, guard.NotApplied)
				expect(t, "replace", put(store, key, value, PutOptions{IfMatch: `"` + info.ETag + `"`}), nil, guard.Applied)
				expect(t, "replace it again", put(store, key, value, PutOptions{IfMatch: info.ETag}), ErrPrecondition, guard.NotApplied)
				expect(t, "replace any", put(store, key, value, PutOptions{IfMatch: "*"}), nil, guard.Applied)
				expect(t, "delete any", store.Delete(t.Context(), writer(33), key, DeleteOptions{IfMatch: "*"}), nil, guard.Applied)
				expect(t, "delete any again", store.Delete(t.Context(), writer(33), key, DeleteOptions{IfMatch: "*"}), ErrPrecondition, guard.NotApplied)
				expect(t, "replace none", put(store, key, value, PutOptions{IfMatch: "*"}), ErrPrecondition, guard.NotApplied)
				_, h := e.stored(t, key)
				if h.Kind != 'T' {
					t.Errorf("deleted as %+v", h)
				}
				expect(t, "create where one was", put(store, key, value, PutOptions{IfNoneMatch: "*"}), nil, guard.Applied)
				expectValue(t, e.store, writer(33), key, value)
			}
		}
	})
}

// Conditional reads answer as a server does; to a tombstone as to nothing.
func TestConditionsOfReads(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		info := mustPut(t, e.store, writer(33), "k", strings.Repeat("v", 100))
		expect(t, "delete", e.store.Delete(t.Context(), writer(33), "gone", DeleteOptions{}), nil, guard.Applied)
		past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		since := mustModified(t, e, "k").Add(time.Second) // stores keep parts of a second that they do not tell
		eventually(t, "that is over", func() bool { return time.Now().After(since) })
		for name, row := range map[string]struct {
			o    GetOptions
			want error
		}{
			"match":                          {GetOptions{IfMatch: info.ETag}, nil},
			"match any":                      {GetOptions{IfMatch: "*"}, nil},
			"match another":                  {GetOptions{IfMatch: "0123"}, ErrPrecondition},
			"none match":                     {GetOptions{IfNoneMatch: info.ETag}, ErrNotModified},
			"none match any":                 {GetOptions{IfNoneMatch: "*"}, ErrNotModified},
			"none match another":             {GetOptions{IfNoneMatch: "0123"}, nil},
			"modified since an hour":         {GetOptions{IfModifiedSince: past}, nil},
			"modified since it was":          {GetOptions{IfModifiedSince: since}, ErrNotModified},
			"unmodified since an hour":       {GetOptions{IfUnmodifiedSince: past}, ErrPrecondition},
			"unmodified since it was":        {GetOptions{IfUnmodifiedSince: since}, nil},
			"unmodified, and matches anyhow": {GetOptions{IfMatch: info.ETag, IfUnmodifiedSince: future}, nil},
		} {
			for _, offset := range []int64{0, 1, 70, -3} {
				o := row.o
				o.Offset = offset
				for _, store := range []*Store{e.store, e.newStore(t, Config{})} {
					_, err := read(t.Context(), store, writer(33), "k", o)
					if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
						t.Errorf("%s from %d: %v, want %v", name, offset, err, row.want)
					}
					if _, err := read(t.Context(), store, writer(33), "gone", o); !errors.Is(err, ErrNotFound) {
						t.Errorf("%s from %d, deleted: %v", name, offset, err)
					}
				}
			}
		}
		for _, key := range []string{"gone", "never"} {
			_, err := e.store.Stat(t.Context(), writer(33), key, GetOptions{})
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("stat %s: %v", key, err)
			}
			_, err = e.store.Copy(t.Context(), writer(33), CopyDest{Key: "copy"}, CopySource{Key: key})
			expect(t, "copy "+key, err, ErrNotFound, guard.NotApplied)
		}
		_, err := e.store.Copy(t.Context(), writer(33), CopyDest{Key: "copy"}, CopySource{Key: "k", IfMatch: "0123"})
		expect(t, "copy of another", err, ErrPrecondition, guard.NotApplied)
		_, err = e.store.Copy(t.Context(), writer(33), CopyDest{Key: "k", PutOptions: PutOptions{IfNoneMatch: "*"}}, CopySource{Key: "k"})
		expect(t, "copy to where something is", err, ErrPrecondition, guard.NotApplied)
		_, err = e.store.Copy(t.Context(), writer(33), CopyDest{Key: "k"}, CopySource{Key: "k"})
		expect(t, "copy onto itself", err, nil, guard.Applied)
	})
}

func mustModified(tb testing.TB, e *env, key string) time.Time {
	tb.Helper()
	info, err := e.store.Stat(tb.Context(), writer(33), key, GetOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return info.LastModified
}

// A known object that has changed since is read as it is now, not as a mixture.
func TestRangeOfWhatHasChanged(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		another := e.newStore(t, Config{})
		mustPut(t, e.store, writer(33), "k", "0123456789")
		mustPut(t, another, writer(33), "k", "abcdefghij")
		got, err := read(t.Context(), e.store, writer(33), "k", GetOptions{Offset: 5})
		if got != "fghij" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		expect(t, "delete", another.Delete(t.Context(), writer(33), "k", DeleteOptions{}), nil, guard.Applied)
		if _, err := read(t.Context(), e.store, writer(33), "k", GetOptions{Offset: 5}); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleted since: %v", err)
		}
		mustPut(t, e.store, writer(33), "k", "0123456789")
		mustPut(t, e.newStore(t, Config{}), writer(34), "k", "newer than that")
		_, err = read(t.Context(), e.store, writer(33), "k", GetOptions{Offset: 1})
		expect(t, "a stale holder's read", err, guard.ErrStale, guard.Refused)
	})
}

// What one process knows of a key is not what another one has made of it since
// under the same token.
func TestTwoProcessesOneToken(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		twin := e.newStore(t, Config{})
		for range 2 {
			expect(t, "delete", e.store.Delete(t.Context(), writer(33), "k", DeleteOptions{}), nil, guard.Applied)
			if _, h := e.stored(t, "k"); h.Kind != 'T' {
				t.Errorf("deleted as %+v (I2)", h)
			}
			mustPut(t, twin, writer(33), "k", "twin's")
		}
		expectValue(t, e.store, writer(33), "k", "twin's")
		mustPut(t, e.store, writer(33), "k", "mine")
		expect(t, "delete", twin.Delete(t.Context(), writer(33), "k", DeleteOptions{}), nil, guard.Applied)
		mustPut(t, e.store, writer(33), "k", "again")
		expectValue(t, twin, writer(33), "k", "again")
		_, err := twin.Put(t.Context(), writer(33), "k", strings.NewReader("x"), 1, PutOptions{IfNoneMatch: "*"})
		expect(t, "create", err, ErrPrecondition, guard.NotApplied)
		expect(t, "delete", e.store.Delete(t.Context(), writer(33), "k", DeleteOptions{}), nil, guard.Applied)
		expect(t, "delete", twin.Delete(t.Context(), writer(33), "k", DeleteOptions{}), nil, guard.Applied)
		if _, h := e.stored(t, "k"); h.Kind != 'T' {
			t.Errorf("deleted as %+v", h)
		}
	})
}

// A shared token reads and never writes; its claim ends an older writer's.
func TestSharedTokens(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustPut(t, e.store, writer(33), "k", "v")
		r := e.newStore(t, Config{})
		mustClaim(t, r, reader(34))
		expectValue(t, r, reader(34), "k", "v")
		expectValue(t, r, reader(35), "k", "v")
		expectValue(t, r, reader(34), "k", "v")
		for name, write := range map[string]func(ctx context.Context) error{
			"put": func(ctx context.Context) error {
				_, err := r.Put(ctx, reader(34), "k", strings.NewReader("x"), 1, PutOptions{})
				return err
			},
			"delete": func(ctx context.Context) error { return r.Delete(ctx, reader(34), "k", DeleteOptions{}) },
			"copy": func(ctx context.Context) error {
				_, err := r.Copy(ctx, reader(34), CopyDest{Key: "k"}, CopySource{Key: "k"})
				return err
			},
		} {
			expect(t, name+" of a reader", write(t.Context()), guard.ErrReadOnly, guard.Refused)
		}
		expect(t, "the writer before, started anew", e.newStore(t, Config{}).Claim(t.Context(), writer(33)), guard.ErrStale, guard.Refused)
		mustPut(t, r, writer(36), "k", "w")
		_, err := read(t.Context(), r, reader(35), "k", GetOptions{})
		expect(t, "a reader that was overtaken", err, guard.ErrStale, guard.Refused)
	})
}
