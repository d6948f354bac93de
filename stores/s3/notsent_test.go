package s3store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
)

// A server that cannot be reached, or no longer: nothing was written, and that
// is said.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := testenv.StartS3(t)
	e := newEnv(t, s, Config{SettleTime: time.Second})
	mustPut(t, e.store, writer(33), "k", "old")
	s.Kill(t)
	for _, act := range []act{putB, remove, copying} {
		err := act.do(t.Context(), e.store, writer(33))
		if err == nil || guard.OutcomeOf(err) == guard.Applied {
			t.Errorf("%s: %v (%v)", act.name, err, guard.OutcomeOf(err))
		}
	}
	direct := func() *Store {
		store, err := New(s.Client(t), Config{Bucket: e.bucket, SettleTime: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	err := direct().Claim(t.Context(), writer(34))
	if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("claim: %v (%v)", err, guard.OutcomeOf(err))
	}
	s.Restart(t)
	expectValue(t, direct(), writer(33), "k", "old")
}

// A payload that cannot be read to its end is not written, and its error is
// told.
func TestPayloadFails(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		wrong := errors.New("disk on fire")
		failing := func(n int) io.Reader {
			return io.MultiReader(bytes.NewReader(make([]byte, n)), failingReader{wrong})
		}
		w := writing{value: "never"}
		for n, size := range map[int]int64{10: 20, 11: -1, payload.Small + 10: payload.Small + 20, parts.MinSize + 10: parts.MinSize + 20, parts.MinSize + 11: -1, 0: 5} {
			e, store := cold(t, s)
			_, err := store.Put(t.Context(), writer(33), "k", failing(n), size, PutOptions{})
			expect(t, fmt.Sprintf("payload that fails after %d of %d", n, size), err, wrong, guard.NotApplied)
			w.holds(t, e, guard.OutcomeOf(err))
			_, err = store.Put(t.Context(), writer(33), "k", streamed{bytes.NewReader(make([]byte, n))}, max(size, int64(n)+1), PutOptions{})
			expect(t, fmt.Sprintf("payload that ends after %d of %d", n, size), err, io.ErrUnexpectedEOF, guard.NotApplied)
			w.holds(t, e, guard.OutcomeOf(err))
		}
	})
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
