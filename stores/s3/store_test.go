package s3store

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// The figures: how many requests each act takes, counted in front of the
// server.
func TestRequests(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		count := func(what string, want []string, act func()) {
			t.Helper()
			e.link.Forget()
			act()
			if got := e.link.Ops(); !slices.Equal(got, want) {
				t.Errorf("%s takes %q, want %q", what, got, want)
			}
		}
		const look, put = s3link.GetObject, s3link.PutObject
		count("first claim", []string{put, put, put, s3link.GetObject, put}, // three to see that conditions count
			func() { mustClaim(t, e.store, writer(33)) })
		count("claim again", []string{s3link.GetObject}, func() { mustClaim(t, e.store, writer(33)) })
		count("cold write", []string{look, put}, func() { mustPut(t, e.store, writer(33), "k", "a") })
		count("warm write", []string{put}, func() { mustPut(t, e.store, writer(33), "k", "b") })
		count("read", []string{s3link.GetObject}, func() { expectValue(t, e.store, writer(33), "k", "b") })
		count("stat", []string{look}, func() {
			if info, err := e.store.Stat(t.Context(), writer(33), "k", GetOptions{}); err != nil || info.Size != 1 {
				t.Error(info, err)
			}
		})
		count("warm delete", []string{put}, func() {
			if err := e.store.Delete(t.Context(), writer(33), "k", DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		count("delete of what I deleted", []string{look}, func() {
			if err := e.store.Delete(t.Context(), writer(33), "k", DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		count("cold delete", []string{look, put}, func() {
			if err := e.store.Delete(t.Context(), writer(33), "other", DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		mustPut(t, e.store, writer(33), "k", "c")
		mustClaim(t, e.store, writer(34))
		count("first write under a new token", []string{look, put}, func() { mustPut(t, e.store, writer(34), "k", "d") })
		count("stale write", []string{}, func() {
			_, err := e.store.Put(t.Context(), writer(33), "k", bytes.NewReader(nil), 0, PutOptions{})
			expect(t, "stale write", err, guard.ErrStale, guard.Refused)
		})
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client, err := minio.New("127.0.0.1:1", &minio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Config{
		"no bucket":          {},
		"plain layout":       {Bucket: "bucket", Layout: LayoutPlain},
		"a bad resource":     {Bucket: "bucket", Prefixes: map[string]string{"a/": ""}},
		"parts of 1 MiB":     {Bucket: "bucket", PartSize: 1 << 20},
		"parts of 6 GiB":     {Bucket: "bucket", PartSize: 6 << 30},
		"negative numbers":   {Bucket: "bucket", Parallel: -1},
		"negative times":     {Bucket: "bucket", SettleTime: -1},
		"a bucket that isnt": {Bucket: "a b"},
	} {
		if s, err := New(client, c); err == nil || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := New(nil, Config{Bucket: "bucket"}); err == nil {
		t.Error("no client is taken")
	}
	if _, err := New(client, Config{Bucket: "bucket", Layout: LayoutPlain}); !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("plain layout: %v", err)
	}
}

func TestPrefixesBindKeys(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{Prefixes: map[string]string{"a/": "orders", "a/b/": "stock"}})
		stock := writer(1)
		stock.Resource = "stock"
		for _, row := range []struct {
			token  guard.Token
			key    string
			reason error
		}{
			{writer(33), "a/x", nil},
			{writer(33), "a/b/x", guard.ErrNoToken},
			{stock, "a/b/x", nil},
			{stock, "a/x", guard.ErrNoToken},
			{stock, "free", nil},
			{writer(33), "free", guard.ErrNoToken}, // it has become stock's
			{guard.Token{}, "a/x", guard.ErrMalformed},
			{guard.Token{Resource: "orders"}, "a/x", guard.ErrMalformed},
			{reader(99), "a/x", guard.ErrReadOnly},
			{writer(33), ".fence/marks/x", guard.ErrUnsupported},
		} {
			_, err := e.store.Put(t.Context(), row.token, row.key, bytes.NewReader([]byte("v")), 1, PutOptions{})
			outcome := guard.Refused
			if row.reason == nil {
				outcome = guard.Applied
			}
			expect(t, "put "+row.key+" under "+row.token.String(), err, row.reason, outcome)
		}
		for key, want := range map[string]string{"a/x": "orders", "a/b/x": "stock", "free": ""} {
			if got, bound := e.store.ResourceOf(key); got != want || bound != (want != "") {
				t.Errorf("%s belongs to %q, %v", key, got, bound)
			}
		}
		_, err := read(t.Context(), e.store, guard.Token{}, "a/x", GetOptions{})
		expect(t, "read without a token", err, guard.ErrNoToken, guard.Refused)
		_, err = read(t.Context(), e.store, writer(33), "free", GetOptions{})
		expect(t, "read of another resource's", err, guard.ErrNoToken, guard.Refused)
		lenient := e.newStore(t, Config{ReadWithoutToken: true, Prefixes: map[string]string{"a/b/": "stock"}})
		for _, token := range []guard.Token{{}, writer(33), stock} {
			for _, key := range []string{"a/x", "a/b/x", "free"} {
				expectValue(t, lenient, token, key, "v")
			}
		}
		_, err = read(t.Context(), lenient, guard.Token{}, ".fence/marks/x", GetOptions{})
		expect(t, "read of the fence's own", err, guard.ErrUnsupported, guard.Refused)
	})
}
