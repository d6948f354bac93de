package s3store

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// An upload and a download of 300 MiB of which nobody knows the size take no
// more memory than the parts that are under way. Not parallel: it measures this
// process.
func TestMemoryIsFlat(t *testing.T) {
	s := testenv.S3(t)
	e := newEnv(t, s, Config{})
	mustClaim(t, e.store, writer(33))
	direct, err := New(s.Client(t), Config{Bucket: e.bucket})
	if err != nil {
		t.Fatal(err)
	}
	const size, limit = 300 << 20, 64 << 20
	peak := watchHeap(t)
	if info, err := direct.Put(t.Context(), writer(33), "large", &pattern{left: size}, -1, PutOptions{}); err != nil || info.Size != size {
		t.Fatal(info, err)
	}
	if grown := peak(); grown > limit {
		t.Errorf("an upload takes %d MiB", grown>>20)
	}
	peak = watchHeap(t)
	object, err := direct.Get(t.Context(), writer(33), "large", GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	if n, err := io.Copy(io.Discard, object); n != size || err != nil {
		t.Error(n, err)
	}
	if grown := peak(); grown > limit/4 {
		t.Errorf("a download takes %d MiB", grown>>20)
	}
}

// watchHeap returns a function that tells by how much the heap in use has grown
// at most since.
func watchHeap(tb testing.TB) func() uint64 {
	tb.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapInuse, m.HeapInuse
	ctx, stop := context.WithCancel(tb.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() uint64 {
		stop()
		watcher.Wait()
		return peak - before
	}
}

// stopper is a payload in the middle of which something happens.
type stopper struct {
	pattern
	after int64
	stop  func()
}

func (s *stopper) Read(b []byte) (int, error) {
	if s.after -= int64(len(b)); s.after < 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
	return s.pattern.Read(b)
}

// An upload of 300 MiB ends in the middle: nothing visible has changed, nothing
// is left, and that is what is said.
func TestInterruptedUpload(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		const size = 300 << 20
		for name, known := range map[string]int64{"size known": size, "size not known": -1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, s, Config{})
				mustPut(t, e.store, writer(33), "k", "old")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := &stopper{pattern: pattern{left: size}, after: size / 3, stop: cancel}
				_, err := e.store.Put(ctx, writer(33), "k", r, known, PutOptions{})
				expect(t, "upload whose context ends", err, context.Canceled, guard.NotApplied)
				writing{value: "never"}.holds(t, e, guard.OutcomeOf(err))
			})
		}
	})
}

// The network goes in the middle of an upload of 300 MiB, in the same part at
// each try: nothing is written, and that is what is said.
func TestUploadOverABadNetwork(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		const size, partSize, before = 300 << 20, 16 << 20, 9
		e := newEnv(t, s, Config{PartSize: partSize})
		mustPut(t, e.store, writer(33), "k", "old")
		part := func(r s3link.Request) bool { return r.Op == s3link.UploadPart && r.Key == "k" }
		for n := 1; n <= request.MaxTries; n++ { // one part after another: these are of the same
			e.link.CutBody(part, before+n, partSize/2)
		}
		_, err := e.store.Put(t.Context(), writer(33), "k", &pattern{left: size}, size, PutOptions{})
		if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%v (%v), want an error (%v)", err, guard.OutcomeOf(err), guard.NotApplied)
		}
		sent := map[string]int{}
		for _, r := range e.link.Requests() {
			if r.Key == "k" {
				sent[r.Op]++
			}
		}
		if sent[s3link.UploadPart] != before+request.MaxTries || sent[s3link.CompleteMultipartUpload] != 0 {
			t.Errorf("sent: %v, want %d parts", sent, before+request.MaxTries)
		}
		writing{value: "never"}.holds(t, e, guard.NotApplied)
		expectValue(t, e.store, writer(33), "k", "old")
	})
}

// The server dies in the middle of an upload, and comes back.
func TestServerDiesInAnUpload(t *testing.T) {
	t.Parallel()
	s := testenv.StartS3(t)
	e := newEnv(t, s, Config{PartSize: parts.MinSize, SettleTime: time.Second})
	mustPut(t, e.store, writer(33), "k", "old")
	const size = 8 * parts.MinSize
	_, err := e.store.Put(t.Context(), writer(33), "k", &stopper{
		pattern: pattern{left: size}, after: size / 2, stop: func() { s.Kill(t) },
	}, size, PutOptions{})
	if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("%v (%v)", err, guard.OutcomeOf(err))
	}
	s.Restart(t)
	store, err := New(s.Client(t), Config{Bucket: e.bucket})
	if err != nil {
		t.Fatal(err)
	}
	expectValue(t, store, writer(33), "k", "old")
	// It could not be aborted. Nobody sees it, and it can be cleared away.
	if _, err := store.AbortUploads(t.Context(), "", 0); err != nil {
		t.Error(err)
	}
	if left := e.uploadsLeft(t); len(left) > 0 {
		t.Errorf("uploads are left: %q", left)
	}
	mustPut(t, store, writer(33), "k", "new")
}

// What a process that was killed has left is cleared away by its age, and what
// is under way is not.
func TestAbortUploads(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{PartSize: parts.MinSize})
		core := minio.Core{Client: e.bare}
		for _, key := range []string{"a/1", "a/2", "b/1"} {
			if _, err := core.NewMultipartUpload(t.Context(), e.bucket, key, minio.PutObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := e.store.AbortUploads(t.Context(), "", time.Hour); n != 0 || err != nil {
			t.Errorf("%d young ones, %v", n, err)
		}
		during := func() {
			if n, err := e.store.AbortUploads(t.Context(), "a/", 0); n != 2 || err != nil {
				t.Errorf("%d old ones, %v", n, err)
			}
		}
		const size = 3 * parts.MinSize
		r := &stopper{pattern: pattern{left: size}, after: size / 2, stop: during}
		if _, err := e.store.Put(t.Context(), writer(33), "a/mine", r, size, PutOptions{}); err != nil {
			t.Error(err)
		}
		if left := e.uploadsLeft(t); strings.Join(left, " ") != "b/1" {
			t.Errorf("left: %q", left)
		}
		// Somebody else ends an upload that is under way: nothing is written, even
		// by a server that says so.
		another := e.newStore(t, Config{})
		mustPut(t, e.store, writer(33), "k", "old")
		held := e.link.Hold(s3link.Op(s3link.CompleteMultipartUpload), 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			<-held.Taken()
			if _, err := another.AbortUploads(context.WithoutCancel(t.Context()), "k", 0); err != nil {
				t.Error(err)
			}
			held.Abandon()
		}()
		_, err := e.store.Put(t.Context(), writer(33), "k", streamed{&pattern{left: size}}, size, PutOptions{})
		<-ended
		if err == nil || guard.OutcomeOf(err) == guard.Applied {
			t.Errorf("an upload that was ended: %v (%v)", err, guard.OutcomeOf(err))
		}
		expectValue(t, e.store, writer(33), "k", "old")
	})
}

// versitygw answers 412 before it has read a body and hangs up. What became of
// the write is told all the same.
func TestEarlyRefusalOfALargeBody(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		store := func() *Store { // without a link, which would read it all
			store, err := New(s.Client(t), Config{Bucket: e.bucket})
			if err != nil {
				t.Fatal(err)
			}
			return store
		}
		mine, twin, newer := store(), store(), store()
		const size = 8 << 20
		put := func(key string, r io.Reader, o PutOptions) error {
			_, err := mine.Put(t.Context(), writer(33), key, r, size, o)
			return err
		}
		unknown := 0
		for range 10 {
			old := mustPut(t, mine, writer(33), "k", "old")
			mustPut(t, twin, writer(33), "k", "another")
			expect(t, "a condition that is false", put("k", &pattern{left: size}, PutOptions{IfMatch: old.ETag}), ErrPrecondition, guard.NotApplied)
			mustPut(t, mine, writer(33), "k", "old")
			mustPut(t, twin, writer(33), "k", "another")
			err := put("k", &pattern{left: size}, PutOptions{})
			if guard.OutcomeOf(err) == guard.Unknown {
				unknown++ // all of it was under way when the server hung up
			} else {
				expect(t, "a payload that can be read once", err, ErrConflict, guard.NotApplied)
			}
			expectValue(t, twin, writer(33), "k", "another")
			mustPut(t, mine, writer(33), "k", "old")
			mustPut(t, twin, writer(33), "k", "another")
			value := strings.Repeat("v", size)
			if err := put("k", strings.NewReader(value), PutOptions{}); err != nil && guard.OutcomeOf(err) != guard.Unknown {
				t.Errorf("a payload that can be read again: %v (%v)", err, guard.OutcomeOf(err))
			}
		}
		t.Logf("%d of 10 unknown", unknown)
		mustPut(t, mine, writer(33), "k", "old")
		mustPut(t, newer, writer(34), "k", "newer")
		err := put("k", &pattern{left: size}, PutOptions{})
		if !errors.Is(err, guard.ErrStale) || guard.OutcomeOf(err) == guard.Applied {
			t.Errorf("a stale write: %v (%v)", err, guard.OutcomeOf(err))
		}
		expectValue(t, newer, writer(34), "k", "newer")
	})
}
