package s3store

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
)

// bigA is large enough for an upload in parts.
var bigA = strings.Repeat("A", parts.MinSize+1)

// act is something that a holder does to the key "k".
type act struct {
	name string
	// request is the one that makes it happen.
	request string
	do      func(ctx context.Context, s *Store, token guard.Token) error
}

func putting(name, value string) act {
	return act{name, s3link.PutObject, func(ctx context.Context, s *Store, token guard.Token) error {
		_, err := s.Put(ctx, token, "k", strings.NewReader(value), int64(len(value)), PutOptions{})
		return err
	}}
}

func inTurn(name string, acts ...act) act {
	return act{name, "", func(ctx context.Context, s *Store, token guard.Token) error {
		for _, a := range acts {
			if err := a.do(ctx, s, token); err != nil {
				return err
			}
		}
		return nil
	}}
}

var (
	putA   = putting("put", "A")
	putB   = putting("put B", "B")
	remove = act{"delete", s3link.PutObject, func(ctx context.Context, s *Store, token guard.Token) error {
		return s.Delete(ctx, token, "k", DeleteOptions{})
	}}
	putParts = act{"upload", s3link.CompleteMultipartUpload, func(ctx context.Context, s *Store, token guard.Token) error {
		_, err := s.Put(ctx, token, "k", strings.NewReader(bigA), int64(len(bigA)), PutOptions{})
		return err
	}}
	copying = act{"copy", s3link.PutObject, func(ctx context.Context, s *Store, token guard.Token) error {
		_, err := s.Copy(ctx, token, CopyDest{Key: "k"}, CopySource{Key: "source"})
		return err
	}}
	putByHand = act{"upload by hand", s3link.CompleteMultipartUpload, func(ctx context.Context, s *Store, token guard.Token) error {
		return putShared(ctx, s, token, "k", bigA)
	}}
)

// I1: whatever the old holder has sent arrives after the new one has touched
// the key, and is not carried out, however the new one left the key.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for _, before := range []act{inTurn("absent"), putA, inTurn("tombstone", putA, remove)} {
			for _, late := range []act{putA, putParts, remove, copying, putByHand} {
				for _, newer := range []act{
					putA, inTurn("A, B, A", putA, putB, putA), remove, inTurn("delete and put", remove, putA),
					inTurn("upload", putParts), inTurn("upload by hand", putByHand),
				} {
					if before.name == "tombstone" && late.name == "delete" {
						continue // the old holder has nothing to send
					}
					t.Run(before.name+"/"+late.name+"/"+newer.name, func(t *testing.T) {
						t.Parallel()
						lateRequest(t, s, before, late, newer)
					})
				}
			}
		}
	})
}

func lateRequest(t *testing.T, s *testenv.S3Server, before, late, newer act) {
	e := newEnv(t, s, Config{PartSize: parts.MinSize, SettleTime: 20 * time.Second})
	ctx := t.Context()
	current := e.newStore(t, Config{PartSize: parts.MinSize})
	mustClaim(t, e.store, writer(33))
	mustPut(t, e.store, writer(33), "source", "A")
	if err := before.do(ctx, e.store, writer(33)); err != nil {
		t.Fatal(err)
	}

	held := e.link.Hold(func(r s3link.Request) bool { return r.Op == late.request && r.Key == "k" }, 1)
	done := make(chan error, 1)
	go func() { done <- late.do(ctx, e.store, writer(33)) }()
	select {
	case <-held.Taken():
	case err := <-done:
		t.Fatalf("the old holder sent nothing: %v", err)
	}

	mustClaim(t, current, writer(34))
	if err := newer.do(ctx, current, writer(34)); err != nil {
		t.Fatal(err)
	}
	want, header := e.stored(t, "k")
	if header.Number != 34 {
		t.Fatalf("written under %d", header.Number)
	}
	held.Abandon()
	// It may have been carried out before the new holder came, for all that the
	// old one can know.
	expect(t, "the old holder's "+late.name, <-done, guard.ErrStale, guard.Unknown)

	for range 2 { // a network may even repeat it
		status, answer, err := held.Deliver(ctx)
		gone := late.name == "upload" && status == 200 // versitygw's answer where the upload is gone; see confirm
		if err != nil || status != 412 && status != 404 && !gone {
			t.Errorf("the late %s is answered by %d %s, %v", late.name, status, answer, err)
		}
	}
	if got, _ := e.stored(t, "k"); !bytes.Equal(got, want) {
		t.Errorf("the late %s was carried out (I1): %.80q, want %.80q", late.name, got, want)
	}
	if left := e.uploadsLeft(t); len(left) > 0 && late.name != putByHand.name {
		t.Errorf("uploads are left: %q", left)
	}
	if err := late.do(ctx, e.store, writer(33)); !errors.Is(err, guard.ErrStale) || guard.OutcomeOf(err) != guard.Refused {
		t.Errorf("the old holder's next %s: %v (%v)", late.name, err, guard.OutcomeOf(err))
	}
	if err := newer.do(ctx, current, writer(34)); err != nil {
		t.Errorf("the new holder's next: %v (I3)", err)
	}
}

// I9: what a new holder has read is overwritten by a late write of the old one,
// before it writes itself. It says so and is not carried out.
func TestReadBeforeALateWrite(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		ctx := t.Context()
		mustPut(t, e.store, writer(33), "k", "A")
		held := e.link.Hold(s3link.Op(s3link.PutObject), 1)
		done := make(chan error, 1)
		go func() { done <- putB.do(ctx, e.store, writer(33)) }()
		<-held.Taken()

		current := e.newStore(t, Config{})
		mustClaim(t, current, writer(34))
		object, err := current.Get(ctx, writer(34), "k", GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		object.Close()
		if status, answer, err := held.Deliver(ctx); status != 200 || err != nil {
			t.Fatal(status, answer, err)
		}
		held.Abandon()
		if err := <-done; err != nil { // its nonce is there
			t.Errorf("the old holder's write: %v", err)
		}
		_, err = current.Put(ctx, writer(34), "k", strings.NewReader("A+"), 2, PutOptions{IfMatch: object.Info.ETag})
		expect(t, "write that names what was read", err, ErrPrecondition, guard.NotApplied)
		// Without a condition it is not carried out in silence either: the store
		// has shown the caller what was there.
		again := e.newStore(t, Config{})
		mustClaim(t, again, writer(34))
		expectValue(t, again, writer(34), "k", "B")
		mustPut(t, e.newStore(t, Config{}), writer(34), "other", "") // no bearing on k
		_, err = current.Put(ctx, writer(34), "k", strings.NewReader("B+"), 2, PutOptions{IfMatch: mustStat(t, current, "k")})
		expect(t, "write that names what it read anew", err, nil, guard.Applied)
		expect(t, "the old holder's next write", putB.do(ctx, e.store, writer(33)), guard.ErrStale, guard.Refused)
		expectValue(t, current, writer(34), "k", "B+")
	})
}

func mustStat(tb testing.TB, s *Store, key string) (etag string) {
	tb.Helper()
	info, err := s.Stat(tb.Context(), writer(34), key, GetOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return info.ETag
}

// A write without a condition of its own, under way when the old holder's
// arrives, is not repeated in silence: its caller may have read what was there.
func TestLostToAnOlderWrite(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		ctx := t.Context()
		mustPut(t, e.store, writer(33), "k", "A")
		late := e.link.Hold(s3link.Op(s3link.PutObject), 1)
		done := make(chan error, 1)
		go func() { done <- putB.do(ctx, e.store, writer(33)) }()
		<-late.Taken()
		current := e.newStore(t, Config{})
		mustClaim(t, current, writer(34))
		expectValue(t, current, writer(34), "k", "A")
		if status, answer, err := late.Deliver(ctx); status != 200 || err != nil {
			t.Fatal(status, answer, err)
		}
		late.Abandon()
		<-done
		_, err := current.Put(ctx, writer(34), "k", strings.NewReader("A+"), 2, PutOptions{})
		expect(t, "write after a read that is out of date", err, ErrOlderWrite, guard.NotApplied)
		if !errors.Is(err, ErrConflict) {
			t.Errorf("it is no conflict: %v", err)
		}
		expectValue(t, current, writer(34), "k", "B")
		mustPut(t, current, writer(34), "k", "B+")
	})
}

// What a holder has seen of a key stays what its next write names, whoever else looks
// at the key through the same store in between (I9).
func TestSeenByOthers(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		invoices := writer(50)
		invoices.Resource = "invoices"
		for name, look := range map[string]func(ctx context.Context, s *Store) error{
			"nobody's range": func(ctx context.Context, s *Store) error {
				_, err := read(ctx, s, guard.Token{}, "k", GetOptions{Offset: 1})
				return err
			},
			"nobody's read": func(ctx context.Context, s *Store) error {
				_, err := read(ctx, s, guard.Token{}, "k", GetOptions{})
				return err
			},
			"a holder of something else": func(ctx context.Context, s *Store) error {
				_, err := read(ctx, s, invoices, "k", GetOptions{})
				return err
			},
		} {
			e := newEnv(t, s, Config{ReadWithoutToken: true})
			other := e.newStore(t, Config{})
			mustPut(t, other, writer(33), "k", "A")
			mustClaim(t, e.store, writer(34))
			expectValue(t, e.store, writer(34), "k", "A")
			mustPut(t, other, writer(33), "k", "late") // of a key that is not closed yet
			if err := look(t.Context(), e.store); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_, err := e.store.Put(t.Context(), writer(34), "k", strings.NewReader("A+"), 2, PutOptions{})
			expect(t, name, err, ErrOlderWrite, guard.NotApplied)
			expectValue(t, e.store, writer(34), "k", "late")
			mustPut(t, e.store, writer(34), "k", "late+")
		}
	})
}

// Tags are written without a condition as anything else is, and tell of an older write
// that its caller has not seen (I9).
func TestTagsBehindAnOlderWrite(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		other := e.newStore(t, Config{})
		mustPut(t, other, writer(33), "k", "A")
		mustClaim(t, e.store, writer(34))
		expectValue(t, e.store, writer(34), "k", "A")
		mustPut(t, other, writer(33), "k", "late") // of a key that is not closed yet
		tag := func() error {
			_, err := e.store.SetTags(t.Context(), writer(34), "k", map[string]string{"a": "b"})
			return err
		}
		expect(t, "tags", tag(), ErrOlderWrite, guard.NotApplied)
		expectValue(t, e.store, writer(34), "k", "late")
		expect(t, "tags of what was read anew", tag(), nil, guard.Applied)
		expectValue(t, e.store, writer(34), "k", "late")
	})
}
