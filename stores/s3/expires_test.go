package s3store

import (
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// storeByTransport is a store whose client has the Transport of this package.
func (e *env) storeByTransport(tb testing.TB, c Config) *Store {
	tb.Helper()
	base := &http.Transport{}
	tb.Cleanup(base.CloseIdleConnections)
	client, err := minio.New(e.server.Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4(e.server.AccessKey, e.server.SecretKey, ""), Region: e.server.Region,
		BucketLookup: minio.BucketLookupPath, MaxRetries: 1, Transport: Transport(base),
	})
	if err != nil {
		tb.Fatal(err)
	}
	c.Bucket = e.bucket
	store, err := New(client, c)
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

// putExpiring writes an object past the fence, with this Expires.
func (e *env) putExpiring(tb testing.TB, key, value, expires string) {
	tb.Helper()
	o := minio.PutObjectOptions{UserMetadata: map[string]string{"Expires": expires}, DisableContentSha256: value == ""}
	core := minio.Core{Client: e.bare}
	if _, err := core.PutObject(tb.Context(), e.bucket, key, strings.NewReader(value), int64(len(value)), "", "", o); err != nil {
		tb.Fatal(err)
	}
}

// An object that says "Expires: 0", as many on the web do, and S3 stores as it is, is framed,
// read, copied, tagged, overwritten and deleted like any other, and keeps it.
func TestExpiresThatIsNoDate(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		ctx := t.Context()
		store := e.storeByTransport(t, Config{})
		legacy := e.storeByTransport(t, Config{Legacy: true})
		const date = "Wed, 21 Oct 2037 07:28:00 GMT"
		values := map[string]string{"k": "abc", "empty": "", "dated": "abc"}
		for key, value := range values {
			expires := "0"
			if key == "dated" {
				expires = date
			}
			e.putExpiring(t, key, value, expires)
			stays := func(what, key string) {
				t.Helper()
				info, err := legacy.Stat(ctx, writer(33), key, GetOptions{})
				if err != nil || Expires(&info) != expires {
					t.Errorf("%s, %s: expires %q, %v", key, what, Expires(&info), err)
				}
				expectValue(t, legacy, writer(33), key, value)
			}
			stays("bare", key)
			if err := store.Frame(ctx, writer(33), key, nil); err != nil {
				t.Fatal(err)
			}
			stays("framed", key)
			if _, err := store.SetTags(ctx, writer(33), key, map[string]string{"a": "b"}); err != nil {
				t.Error(err)
			}
			stays("tagged", key)
			if _, err := store.Copy(ctx, writer(33), CopyDest{Key: "copy of " + key}, CopySource{Key: key}); err != nil {
				t.Error(err)
			}
			stays("copied", "copy of "+key)
			if value != "" {
				if got, err := read(ctx, store, writer(33), key, GetOptions{Offset: -2}); err != nil || got != value[1:] {
					t.Errorf("%s: %q, %v", key, got, err)
				}
			}
			if _, err := store.Put(ctx, writer(33), key, strings.NewReader("new"), 3, PutOptions{ExpiresText: expires}); err != nil {
				t.Error(err)
			}
			value = "new"
			stays("written", key)
			if err := store.Delete(ctx, writer(33), key, DeleteOptions{}); err != nil {
				t.Error(err)
			}
			_, err := store.Stat(ctx, writer(33), key, GetOptions{})
			expect(t, "deleted", err, ErrNotFound, guard.Unknown)
		}
	})
}

// Without the Transport minio-go reads no such object, and the error says what helps.
func TestExpiresThatMinioDoesNotRead(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{Legacy: true})
	e.putExpiring(t, "k", "abc", "0")
	_, err := e.store.Put(t.Context(), writer(33), "k", strings.NewReader("new"), 3, PutOptions{})
	if err == nil || !strings.Contains(err.Error(), "s3store.Transport") || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("put: %v, %v", err, guard.OutcomeOf(err))
	}
	_, err = read(t.Context(), e.store, writer(33), "k", GetOptions{})
	if err == nil || !strings.Contains(err.Error(), "s3store.Transport") {
		t.Errorf("get: %v", err)
	}
	_, err = e.store.Put(t.Context(), writer(33), "other", strings.NewReader("v"), 1, PutOptions{ExpiresText: "a\nb"})
	if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("an Expires of two lines: %v", err)
	}
}

// Two names of metadata stay two, whatever an object is written again for.
func TestNamesOfMetadataStay(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		core := minio.Core{Client: e.bare}
		_, err := core.PutObject(t.Context(), e.bucket, "k", strings.NewReader("abc"), 3, "", "",
			minio.PutObjectOptions{UserMetadata: map[string]string{"x-amz-meta-color": "red", "x-amz-meta-x-amz-meta-color": "blue"}})
		if err != nil {
			t.Fatal(err)
		}
		expectNames := func(key string) {
			t.Helper()
			info, err := e.store.Stat(t.Context(), writer(33), key, GetOptions{})
			if err != nil || len(info.UserMetadata) != 2 || info.UserMetadata["Color"] != "red" || info.UserMetadata["X-Amz-Meta-Color"] != "blue" {
				t.Errorf("%s: %v, %v", key, info.UserMetadata, err)
			}
		}
		if err := e.store.Frame(t.Context(), writer(33), "k", nil); err != nil {
			t.Fatal(err)
		}
		expectNames("k")
		if _, err := e.store.SetTags(t.Context(), writer(33), "k", map[string]string{"a": "b"}); err != nil {
			t.Fatal(err)
		}
		expectNames("k")
		if _, err := e.store.Copy(t.Context(), writer(33), CopyDest{Key: "copy"}, CopySource{Key: "k"}); err != nil {
			t.Fatal(err)
		}
		expectNames("copy")
	})
}
