package s3store

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func expectTags(tb testing.TB, s *Store, token guard.Token, key string, want map[string]string) {
	tb.Helper()
	if got, err := s.Tags(tb.Context(), token, key); err != nil || !maps.Equal(got, want) {
		tb.Errorf("tags of %s: %v, %v, want %v", key, got, err, want)
	}
}

// Tags stay with an object whatever is done to it, but for a new payload.
func TestTags(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		ctx := t.Context()
		tags := map[string]string{"colour": "blue", "a b": "c+d"}
		value := strings.Repeat("v", 1000)
		before, err := e.store.Put(ctx, writer(33), "k", strings.NewReader(value), 1000, PutOptions{
			UserTags: tags, ContentType: "text/plain", UserMetadata: map[string]string{"m": "n"}, CacheControl: "no-store",
		})
		if err != nil {
			t.Fatal(err)
		}
		expectTags(t, e.store, writer(33), "k", tags)

		other := map[string]string{"colour": "red"}
		after, err := e.store.SetTags(ctx, writer(33), "k", other)
		if err != nil || after.ETag == before.ETag || after.Size != 1000 {
			t.Fatal(after, err)
		}
		expectTags(t, e.store, writer(33), "k", other)
		info, err := e.store.Stat(ctx, writer(33), "k", GetOptions{})
		if err != nil || info.ETag != after.ETag || info.ContentType != "text/plain" || info.UserMetadata["M"] != "n" || info.Metadata.Get("Cache-Control") != "no-store" {
			t.Errorf("after tagging: %+v, %v", info, err)
		}
		expectValue(t, e.store, writer(33), "k", value)

		for key, dst := range map[string]CopyDest{
			"copy": {}, "metadata replaced": {ReplaceMetadata: true},
			"tags replaced": {ReplaceTags: true, PutOptions: PutOptions{UserTags: tags}}, "tags dropped": {ReplaceTags: true},
		} {
			dst.Key = key
			if _, err := e.store.Copy(ctx, writer(33), dst, CopySource{Key: "k"}); err != nil {
				t.Fatal(err)
			}
			want := other
			if dst.ReplaceTags {
				want = dst.PutOptions.UserTags
			}
			expectTags(t, e.store, writer(33), key, want)
		}

		mustClaim(t, e.store, writer(34))
		_, err = e.store.SetTags(ctx, writer(33), "k", tags)
		expect(t, "stale tags", err, guard.ErrStale, guard.Refused)
		expectTags(t, e.store, writer(34), "k", other)
		if _, err := e.store.SetTags(ctx, writer(34), "k", nil); err != nil {
			t.Error(err)
		}
		expectTags(t, e.store, writer(34), "k", nil)
		if err := e.store.Delete(ctx, writer(34), "k", DeleteOptions{}); err != nil {
			t.Error(err)
		}
		for _, key := range []string{"k", "nothing"} {
			_, err = e.store.Tags(ctx, writer(34), key)
			expect(t, "tags of what is not there", err, ErrNotFound, guard.Unknown)
			_, err = e.store.SetTags(ctx, writer(34), key, tags)
			expect(t, "tagging of what is not there", err, ErrNotFound, guard.NotApplied)
		}
	})
}

// Framing an object keeps its tags.
func TestRewriteKeepsTags(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		legacy := e.newStore(t, Config{Legacy: true})
		tags := map[string]string{"colour": "blue"}
		e.putBareTagged(t, "k", "abc", tags)
		expectTags(t, legacy, writer(33), "k", tags)
		if err := e.store.Frame(t.Context(), writer(33), "", nil); err != nil {
			t.Fatal(err)
		}
		expectTags(t, e.store, writer(33), "k", tags)
		other := writer(1)
		other.Resource = "invoices"
		if err := e.store.Rebind(t.Context(), other, "", "orders", nil); err != nil {
			t.Fatal(err)
		}
		expectTags(t, e.store, other, "k", tags)
	})
}

// meanwhile is a network in which something happens before a request is sent.
type meanwhile struct {
	http.RoundTripper

	before func(r *http.Request)
}

func (m meanwhile) RoundTrip(r *http.Request) (*http.Response, error) {
	m.before(r)
	return m.RoundTripper.RoundTrip(r)
}

// storeMeanwhile returns another store on the bucket, before each of whose requests
// something happens.
func (e *env) storeMeanwhile(tb testing.TB, before func(*http.Request)) *Store {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	client, err := minio.New(e.server.Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4(e.server.AccessKey, e.server.SecretKey, ""), Region: e.server.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
		Transport: meanwhile{transport, before},
	})
	if err != nil {
		tb.Fatal(err)
	}
	store, err := New(client, Config{Bucket: e.bucket})
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

// Tags that are read while another write replaces the object are not taken for
// those of what was read.
func TestTagsOfAnotherState(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		put := func(value string) {
			t.Helper()
			_, err := e.store.Put(t.Context(), writer(33), "k", strings.NewReader(value), int64(len(value)), PutOptions{UserTags: map[string]string{"of": value}})
			if err != nil {
				t.Error(err)
			}
		}
		put("one")
		var once sync.Once
		store := e.storeMeanwhile(t, func(r *http.Request) {
			if r.URL.Query().Has("tagging") {
				once.Do(func() { put("two") })
			}
		})
		_, err := store.Copy(t.Context(), writer(33), CopyDest{Key: "copy"}, CopySource{Key: "k"})
		expect(t, "copy of what is replaced meanwhile", err, ErrConflict, guard.NotApplied)
		if _, err = store.Copy(t.Context(), writer(33), CopyDest{Key: "copy"}, CopySource{Key: "k"}); err != nil {
			t.Error(err)
		}
		expectTags(t, store, writer(33), "copy", map[string]string{"of": "two"})
		expectValue(t, store, writer(33), "copy", "two")
	})
}

// Tags that cannot be sent are refused; minio-go would leave them all out.
func TestTagsThatCannotBe(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	many := map[string]string{}
	for i := range 11 {
		many[strconv.Itoa(i)] = ""
	}
	for name, tags := range map[string]map[string]string{
		"too many": many, "no name": {"": "x"}, "a long value": {"of": strings.Repeat("x", 257)},
	} {
		_, err := e.store.Put(t.Context(), writer(33), "k", strings.NewReader("x"), 1, PutOptions{UserTags: tags})
		if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%s: %v, %v", name, err, guard.OutcomeOf(err))
		}
	}
	if _, err := e.store.Stat(t.Context(), writer(33), "k", GetOptions{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("stat: %v", err)
	}
}

// An older holder's write that lands while tags are being set is told of, as one is that
// has landed before (I9).
func TestTagsBehindAnOlderWriteMeanwhile(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		older := e.newStore(t, Config{})
		for name, read := range map[string]bool{"read before": true, "not read before": false} {
			var tagging atomic.Bool
			var once sync.Once
			store := e.storeMeanwhile(t, func(r *http.Request) {
				if tagging.Load() && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+name) {
					once.Do(func() {
						if _, err := older.Put(t.Context(), writer(33), name, strings.NewReader("late"), 4, PutOptions{}); err != nil {
							t.Error(err)
						}
					})
				}
			})
			mustPut(t, older, writer(33), name, "A")
			mustClaim(t, store, writer(34))
			if read {
				expectValue(t, store, writer(34), name, "A")
			}
			tagging.Store(true)
			_, err := store.SetTags(t.Context(), writer(34), name, map[string]string{"a": "b"})
			expect(t, name, err, ErrOlderWrite, guard.NotApplied)
			expectTags(t, store, writer(34), name, nil)
			if _, err := store.SetTags(t.Context(), writer(34), name, map[string]string{"a": "b"}); err != nil {
				t.Errorf("%s: when it was told: %v", name, err)
			}
			expectValue(t, store, writer(34), name, "late")
		}
	})
}
