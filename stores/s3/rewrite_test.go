package s3store

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
)

// Objects of before are framed where they are, once.
func TestFrame(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{PartSize: parts.MinSize})
		values := map[string]string{"p/empty": "", "p/60": strings.Repeat("x", 60), "p/large": big, "p/q/r": "v"}
		for key, value := range values {
			e.putBare(t, key, value)
		}
		e.putBare(t, "other", "v")
		mustPut(t, e.store, writer(33), "p/framed", "v")
		expect(t, "delete", e.store.Delete(t.Context(), writer(33), "p/deleted", DeleteOptions{}), nil, guard.Applied)
		var last Progress
		keep := func(p Progress) { last = p }
		if err := e.store.Frame(t.Context(), writer(33), "p/", keep); err != nil {
			t.Fatal(err)
		}
		if last.Changed != 4 || last.Skipped != 2 || last.Failed != 0 || last.Bytes != int64(len(big)+61) || last.Key != "p/q/r" {
			t.Errorf("%+v", last)
		}
		for key, value := range values {
			expectValue(t, e.store, writer(33), key, value)
			if info, err := e.store.Stat(t.Context(), writer(33), key, GetOptions{}); err != nil || info.ContentType != "text/plain" {
				t.Errorf("%s: %+v, %v", key, info, err)
			}
		}
		e.link.Forget()
		if err := e.store.Frame(t.Context(), writer(33), "p/", nil); err != nil || e.link.Count(s3link.PutObject) > 0 {
			t.Errorf("again: %v, %d objects written", err, e.link.Count(s3link.PutObject))
		}
		if data, _ := e.stored(t, "other"); string(data) != "v" {
			t.Errorf("beside the prefix: %q", data)
		}
		mustClaim(t, e.newStore(t, Config{}), writer(34))
		e.putBare(t, "p/zz", "v")
		expect(t, "frame under a stale token", e.newStore(t, Config{}).Frame(t.Context(), writer(33), "p/", nil), guard.ErrStale, guard.Refused)
	})
}

func TestRebind(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		ctx := t.Context()
		stock := guard.Token{Resource: "stock", Number: 1, Mode: guard.Exclusive, Issuer: "other"}
		mustPut(t, e.store, writer(33), "p/a", "a")
		expect(t, "delete", e.store.Delete(ctx, writer(33), "p/deleted", DeleteOptions{}), nil, guard.Applied)
		mustPut(t, e.store, stock, "p/own", "s")
		mustPut(t, e.store, writer(33), "q", "q")
		_, err := e.store.Put(ctx, stock, "p/a", strings.NewReader("x"), 1, PutOptions{})
		expect(t, "put to another resource's key", err, guard.ErrNoToken, guard.Refused)
		held := e.link.Hold(func(r s3link.Request) bool { return r.Op == s3link.PutObject && r.Key == "p/a" }, 1)
		done := make(chan error, 1)
		go func() {
			_, err := e.store.Put(ctx, writer(33), "p/a", strings.NewReader("late"), 4, PutOptions{})
			done <- err
		}()
		<-held.Taken()
		var last Progress
		if err := e.store.Rebind(ctx, stock, "p/", "orders", func(p Progress) { last = p }); err != nil {
			t.Fatal(err)
		}
		if last.Changed != 2 || last.Skipped != 1 || last.Failed != 0 {
			t.Errorf("%+v", last)
		}
		held.Abandon()
		expect(t, "the former resource's late write", <-done, guard.ErrNoToken, guard.Unknown)
		if status, _, err := held.Deliver(ctx); status != 412 || err != nil {
			t.Errorf("it is answered by %d, %v", status, err)
		}
		expectValue(t, e.store, stock, "p/a", "a")
		mustPut(t, e.store, stock, "p/deleted", "again")
		mustPut(t, e.store, writer(33), "q", "q2")
		_, err = e.store.Put(ctx, writer(33), "p/a", strings.NewReader("x"), 1, PutOptions{})
		expect(t, "put by the former resource", err, guard.ErrNoToken, guard.Refused)
		if err := e.store.Rebind(ctx, writer(33), "p/", "stock", nil); err != nil {
			t.Errorf("back: %v", err)
		}
		mustPut(t, e.store, writer(33), "p/own", "mine now")

		// Nor does it bring back a token that was overtaken before the keys went
		// to another resource (I1).
		newer := e.newStore(t, Config{})
		mustPut(t, newer, writer(34), "p/a", "newer")
		if err := newer.Rebind(ctx, stock, "p/", "orders", nil); err != nil {
			t.Fatal(err)
		}
		expect(t, "rebind by an overtaken token", e.store.Rebind(ctx, writer(33), "p/", "stock", nil), guard.ErrStale, guard.Refused)
		expectValue(t, newer, stock, "p/a", "newer")
	})
}

// A rebind that has seen a tombstone does not delete what is written in its place
// meanwhile (I2).
func TestRebindOfATombstoneThatIsOverwritten(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		ctx := t.Context()
		var rebinding atomic.Bool
		var looks atomic.Int32
		store := e.storeMeanwhile(t, func(r *http.Request) {
			if rebinding.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/k") && looks.Add(1) == 2 {
				if _, err := e.store.Put(ctx, writer(33), "k", strings.NewReader("acknowledged"), 12, PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
		// The holder of the former resource has used the same store, so that what the rebind
		// looks at is not taken from it, and is looked at once more.
		mustPut(t, store, writer(33), "k", "old")
		expect(t, "delete", store.Delete(ctx, writer(33), "k", DeleteOptions{}), nil, guard.Applied)
		stock := guard.Token{Resource: "stock", Number: 1, Mode: guard.Exclusive, Issuer: "other"}
		rebinding.Store(true)
		err := store.Rebind(ctx, stock, "", "orders", nil)
		if looks.Load() < 2 {
			t.Fatal("nothing was written meanwhile")
		}
		expect(t, "rebind", err, ErrConflict, guard.NotApplied)
		expectValue(t, e.store, writer(33), "k", "acknowledged")
		if err := store.Rebind(ctx, stock, "", "orders", nil); err != nil {
			t.Errorf("again: %v", err)
		}
		expectValue(t, e.store, stock, "k", "acknowledged")
	})
}
