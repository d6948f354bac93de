package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// putShared uploads value by hand, in parts of the least size.
func putShared(ctx context.Context, s *Store, token guard.Token, key, value string) error {
	id, err := s.CreateUpload(ctx, token, key, PutOptions{})
	if err != nil {
		return err
	}
	list, err := putPieces(ctx, s, token, key, id, value)
	if err != nil {
		return err
	}
	_, err = s.CompleteUpload(ctx, token, key, id, list, CompleteOptions{})
	return err
}

func putPieces(ctx context.Context, s *Store, token guard.Token, key, id, value string) (list []minio.CompletePart, err error) {
	for number := 1; value != ""; number++ {
		piece := value[:min(len(value), parts.MinSize)]
		value = value[len(piece):]
		part, err := s.UploadPart(ctx, token, key, id, number, strings.NewReader(piece), int64(len(piece)))
		if err != nil {
			return list, err
		}
		list = append(list, minio.CompletePart{PartNumber: number, ETag: part.ETag})
	}
	return list, nil
}

// pair is a bucket with two processes on it that share uploads.
func pair(tb testing.TB, s *testenv.S3Server) (e *env, a, b *Store) {
	tb.Helper()
	e = newEnv(tb, s, Config{PartSize: parts.MinSize})
	a, b = e.newStore(tb, Config{}), e.newStore(tb, Config{})
	mustPut(tb, a, writer(33), "k", "old")
	mustClaim(tb, b, writer(33))
	return e, a, b
}

func mustCreate(tb testing.TB, s *Store, token guard.Token) (id string) {
	tb.Helper()
	id, err := s.CreateUpload(tb.Context(), token, "k", PutOptions{ContentType: "text/plain", UserMetadata: map[string]string{"a": "b"}})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func mustUpload(tb testing.TB, s *Store, token guard.Token, id string, number int, value string) minio.CompletePart {
	tb.Helper()
	part, err := s.UploadPart(tb.Context(), token, "k", id, number, strings.NewReader(value), int64(len(value)))
	if err != nil || part.PartNumber != number || part.Size != int64(len(value)) {
		tb.Fatalf("part %d: %+v, %v", number, part, err)
	}
	return minio.CompletePart{PartNumber: number, ETag: part.ETag}
}

func completeBy(tb testing.TB, s *Store, token guard.Token, id string, list ...minio.CompletePart) (minio.UploadInfo, error) {
	tb.Helper()
	return s.CompleteUpload(tb.Context(), token, "k", id, list, CompleteOptions{})
}

// The parts of one upload go through two processes, part 1 last and twice; each
// of the two may complete it, again and again.
func TestUploadThroughTwoStores(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, a, b := pair(t, s)
		one, two := strings.Repeat("1", parts.MinSize), strings.Repeat("2", parts.MinSize)
		id := mustCreate(t, a, writer(33))
		three := mustUpload(t, b, writer(33), id, 3, "end")
		second := mustUpload(t, a, writer(33), id, 2, two)
		mustUpload(t, a, writer(33), id, 1, "not this")
		first := mustUpload(t, b, writer(33), id, 1, one)

		listed, err := a.ListParts(t.Context(), writer(33), "k", id, 1, 1)
		if err != nil || listed.UploadID != id || !listed.IsTruncated || len(listed.ObjectParts) != 1 || listed.ObjectParts[0].ETag != second.ETag {
			t.Errorf("parts behind the first: %+v, %v", listed, err)
		}
		listed, err = b.ListParts(t.Context(), writer(33), "k", id, 0, 0)
		if err != nil || len(listed.ObjectParts) != 3 || listed.ObjectParts[0].Size != parts.MinSize || listed.ObjectParts[2].Size != 3 {
			t.Errorf("parts: %+v, %v", listed, err)
		}
		uploads, err := b.ListUploads(t.Context(), writer(33), UploadsOptions{Prefix: "k"})
		if err != nil || len(uploads.Uploads) != 1 || uploads.Uploads[0].Key != "k" {
			t.Fatalf("uploads: %+v, %v", uploads, err)
		}
		if listed, err := a.ListParts(t.Context(), writer(33), "k", uploads.Uploads[0].UploadID, 0, 0); err != nil || len(listed.ObjectParts) != 3 {
			t.Errorf("parts by the id of the list: %+v, %v", listed, err)
		}
		expectValue(t, a, writer(33), "k", "old")

		info, err := completeBy(t, b, writer(33), id, first, second, three)
		size := int64(len(one + two + "end"))
		if err != nil || info.Size != size || info.ETag == "" {
			t.Fatalf("complete: %+v, %v", info, err)
		}
		again, err := completeBy(t, a, writer(33), id, first, second, three)
		if err != nil || again.ETag != info.ETag || again.Size != size {
			t.Errorf("complete again: %+v, %v, want %+v", again, err, info)
		}
		expectValue(t, a, writer(33), "k", one+two+"end")
		stat, err := a.Stat(t.Context(), writer(33), "k", GetOptions{})
		if err != nil || stat.ETag != info.ETag || stat.Size != size || stat.ContentType != "text/plain" || stat.UserMetadata["A"] != "b" {
			t.Errorf("stat: %+v, %v", stat, err)
		}
		if left := e.uploadsLeft(t); len(left) > 0 {
			t.Errorf("uploads are left: %q", left)
		}
		// It goes on as any object does; then the upload is gone, and nobody knows
		// whether it was written.
		mustPut(t, b, writer(33), "k", "next")
		_, err = completeBy(t, a, writer(33), id, first, second, three)
		if !request.IsCode(err, minio.NoSuchUpload) || guard.OutcomeOf(err) != guard.Unknown {
			t.Errorf("complete what was overwritten: %v (%v)", err, guard.OutcomeOf(err))
		}
		expectValue(t, a, writer(33), "k", "next")
	})
}

// Only the very token that began an upload goes on with it. A newer one may end
// it, an older one may not.
func TestUploadUnderAnotherToken(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, a, b := pair(t, s)
		mustClaim(t, a, writer(34))
		id := mustCreate(t, a, writer(34))
		part := mustUpload(t, a, writer(34), id, 1, "new")
		twin, other := writer(34), writer(34)
		twin.Holder, other.Resource = "twin", "invoices"
		refused := func(what string, s *Store, token guard.Token, reason error) {
			t.Helper()
			_, err := s.UploadPart(t.Context(), token, "k", id, 1, strings.NewReader("x"), 1)
			expect(t, what+", part", err, reason, guard.Refused)
			_, err = s.CopyPart(t.Context(), token, "k", id, 2, CopySource{Key: "k"}, 0, 0)
			expect(t, what+", copied part", err, reason, guard.Refused)
			_, err = completeBy(t, s, token, id, part)
			expect(t, what+", complete", err, reason, guard.Refused)
		}
		refused("older, which has not heard", b, writer(33), guard.ErrStale)
		expect(t, "older, abort", b.AbortUpload(t.Context(), writer(33), "k", id), guard.ErrStale, guard.Refused)
		refused("another holder of the number", a, twin, guard.ErrDuplicate)
		mustClaim(t, a, other)
		refused("another resource", a, other, guard.ErrNoToken)
		expect(t, "another resource, abort", a.AbortUpload(t.Context(), other, "k", id), guard.ErrNoToken, guard.Refused)
		refused("a shared token", a, reader(34), guard.ErrReadOnly)
		mustClaim(t, b, writer(35))
		refused("newer", b, writer(35), guard.ErrNoToken)
		uploads, err := a.ListUploads(t.Context(), writer(34), UploadsOptions{})
		if err != nil || len(uploads.Uploads) != 1 {
			t.Fatalf("%+v, %v", uploads, err)
		}
		_, err = a.UploadPart(t.Context(), writer(34), "k", uploads.Uploads[0].UploadID, 1, strings.NewReader("x"), 1)
		expect(t, "part by the id of a list", err, guard.ErrNoToken, guard.Refused)

		if err := b.AbortUpload(t.Context(), writer(35), "k", id); err != nil {
			t.Errorf("newer, abort: %v", err)
		}
		if left := e.uploadsLeft(t); len(left) > 0 {
			t.Errorf("uploads are left: %q", left)
		}
		// The holder that was overtaken meets an upload that is gone, over an
		// object that an older one wrote: his was never there.
		_, err = completeBy(t, a, writer(34), id, part)
		if !request.IsCode(err, minio.NoSuchUpload) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("complete what was aborted: %v (%v)", err, guard.OutcomeOf(err))
		}
		expectValue(t, b, writer(35), "k", "old")

		id = mustCreate(t, b, writer(35))
		uploads, err = b.ListUploads(t.Context(), writer(35), UploadsOptions{})
		if err != nil || len(uploads.Uploads) != 1 {
			t.Fatalf("%+v, %v", uploads, err)
		}
		listed := uploads.Uploads[0].UploadID
		expect(t, "older, abort by the id of a list", a.AbortUpload(t.Context(), writer(34), "k", listed), guard.ErrStale, guard.Refused)
		if err := b.AbortUpload(t.Context(), writer(35), "k", listed); err != nil {
			t.Errorf("abort by the id of a list: %v", err)
		}
		for _, gone := range []string{id, listed} {
			err := b.AbortUpload(t.Context(), writer(35), "k", gone)
			if !request.IsCode(err, minio.NoSuchUpload) || guard.OutcomeOf(err) != guard.NotApplied {
				t.Errorf("abort again: %v (%v)", err, guard.OutcomeOf(err))
			}
		}
		id = mustCreate(t, b, writer(35))
		e.link.DropReply(s3link.Op(s3link.AbortMultipartUpload), 1)
		if err := b.AbortUpload(t.Context(), writer(35), "k", id); err != nil {
			t.Errorf("abort whose reply is lost: %v", err)
		}
	})
}

// I1: a newer holder has written the key, or the resource was adopted, before an
// upload is completed.
func TestUploadOvertaken(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		foreign := guard.Token{Resource: "orders", Number: 1, Mode: guard.Exclusive, Holder: "h", Issuer: "j"}
		for name, newer := range map[string]guard.Token{"stale": writer(34), "adopted": foreign} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				_, a, b := pair(t, s)
				id := mustCreate(t, a, writer(33))
				part := mustUpload(t, a, writer(33), id, 1, "new")
				want := guard.ErrStale
				if newer.Issuer == "j" {
					want = guard.ErrForeign
					if err := b.Adopt(t.Context(), "orders", "j"); err != nil {
						t.Fatal(err)
					}
				}
				mustPut(t, b, newer, "k", "newer")
				_, err := completeBy(t, a, writer(33), id, part)
				expect(t, "complete", err, want, guard.Refused)
				expectValue(t, b, newer, "k", "newer")
				expect(t, "abort", a.AbortUpload(t.Context(), writer(33), "k", id), want, guard.Refused)
				if err := b.AbortUpload(t.Context(), newer, "k", id); err != nil {
					t.Errorf("abort by the newer: %v", err)
				}
			})
		}
	})
}

// The reply to a completion is lost, and what it says besides; the client asks
// the other process.
func TestCompleteRepeatedElsewhere(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, a, _ := pair(t, s)
		other, err := New(s.Client(t), Config{Bucket: e.bucket, UploadKey: a.config.UploadKey})
		if err != nil {
			t.Fatal(err)
		}
		id := mustCreate(t, a, writer(33))
		part := mustUpload(t, a, writer(33), id, 1, "new")
		held := e.link.Hold(s3link.Op(s3link.CompleteMultipartUpload), 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := a.CompleteUpload(ctx, writer(33), "k", id, []minio.CompletePart{part}, CompleteOptions{})
			done <- err
		}()
		<-held.Taken()
		cancel()
		held.Abandon()
		expectUnknown(t, "complete whose request is under way", <-done)
		if _, err := completeBy(t, other, writer(33), id, part); err != nil {
			t.Errorf("complete through the other process: %v", err)
		}
		expectValue(t, other, writer(33), "k", "new")
		mustPut(t, other, writer(33), "k", "next")
		for range 2 { // it arrives at last
			if status, answer, err := held.Deliver(t.Context()); err != nil || status == http.StatusOK && s.Name() != "versitygw" {
				t.Errorf("the late request is answered by %d %s, %v", status, answer, err)
			}
		}
		expectValue(t, other, writer(33), "k", "next")
	})
}

// A completion that is repeated is not stopped by its own object.
func TestConditionalCompleteRepeated(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		_, a, b := pair(t, s)
		if err := a.Delete(t.Context(), writer(33), "k", DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		id := mustCreate(t, a, writer(33))
		list := []minio.CompletePart{mustUpload(t, a, writer(33), id, 1, "new")}
		for _, store := range []*Store{a, b, a} {
			if _, err := store.CompleteUpload(t.Context(), writer(33), "k", id, list, CompleteOptions{IfNoneMatch: "*"}); err != nil {
				t.Errorf("complete if there is nothing: %v", err)
			}
		}
		expectValue(t, b, writer(33), "k", "new")
	})
}

// What is not an id of this key and bucket, or no list of parts with the header
// in front, is refused.
func TestUploadRefuses(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	e, a, _ := pair(t, s)
	ctx := t.Context()
	id := mustCreate(t, a, writer(33))
	one, two := mustUpload(t, a, writer(33), id, 1, big[:parts.MinSize]), mustUpload(t, a, writer(33), id, 2, "end")
	_, err := completeBy(t, a, writer(33), id, two)
	expect(t, "complete without part 1", err, guard.ErrUnsupported, guard.Refused)
	_, err = completeBy(t, a, writer(33), id)
	expect(t, "complete without parts", err, guard.ErrUnsupported, guard.Refused)
	for name, list := range map[string][]minio.CompletePart{"backwards": {two, one}, "twice": {one, one, two}} {
		_, err = completeBy(t, a, writer(33), id, list...)
		if !request.IsCode(err, minio.InvalidPartOrder) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("complete %s: %v", name, err)
		}
	}
	_, err = completeBy(t, a, writer(33), id, minio.CompletePart{PartNumber: 1, ETag: two.ETag})
	if !request.IsCode(err, minio.InvalidPart) || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("complete with a part that is not there: %v (%v)", err, guard.OutcomeOf(err))
	}
	_, err = a.CompleteUpload(ctx, writer(33), "k", id, []minio.CompletePart{one}, CompleteOptions{IfNoneMatch: "*"})
	expect(t, "complete if there is nothing", err, ErrPrecondition, guard.NotApplied)
	_, err = a.CompleteUpload(ctx, writer(33), "k", id, []minio.CompletePart{one}, CompleteOptions{IfMatch: "no"})
	expect(t, "complete if it is another", err, ErrPrecondition, guard.NotApplied)

	elsewhere := e.newStore(t, Config{UploadKey: []byte("another")})
	mustClaim(t, elsewhere, writer(33))
	for name, act := range map[string]func() error{
		"another key":     func() error { _, err := a.ListParts(ctx, writer(33), "other", id, 0, 0); return err },
		"another secret":  func() error { _, err := elsewhere.ListParts(ctx, writer(33), "k", id, 0, 0); return err },
		"a changed id":    func() error { _, err := completeBy(t, a, writer(33), id[:len(id)-3]+"AAA", one); return err },
		"a part of an id": func() error { return a.AbortUpload(ctx, writer(33), "k", id[:20]) },
		"no id": func() error {
			_, err := a.UploadPart(ctx, writer(33), "k", "", 1, strings.NewReader("x"), 1)
			return err
		},
	} {
		if err := act(); !request.IsCode(err, minio.NoSuchUpload) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, number := range map[string]int{"part 0": 0, "part 10001": 10001} {
		_, err = a.UploadPart(ctx, writer(33), "k", id, number, strings.NewReader("x"), 1)
		if !request.IsCode(err, minio.InvalidArgument) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%s: %v (%v)", name, err, guard.OutcomeOf(err))
		}
	}
	_, err = a.CreateUpload(ctx, writer(33), "k", PutOptions{IfNoneMatch: "*"})
	expect(t, "create with a condition", err, guard.ErrUnsupported, guard.NotApplied)
	_, err = a.CreateUpload(ctx, writer(33), ".fence/x", PutOptions{})
	expect(t, "create of the fence's own", err, guard.ErrUnsupported, guard.Refused)

	keyless, err := New(s.Client(t), Config{Bucket: e.bucket})
	if err != nil {
		t.Fatal(err)
	}
	_, err = keyless.CreateUpload(ctx, writer(33), "k", PutOptions{})
	expect(t, "create without a key for ids", err, guard.ErrUnsupported, guard.Refused)
	_, err = completeBy(t, keyless, writer(33), id, one)
	expect(t, "complete without a key for ids", err, guard.ErrUnsupported, guard.Refused)

	if _, err = completeBy(t, a, writer(33), id, one, two); err != nil {
		t.Errorf("complete at last: %v", err)
	}
}

// A part whose source fails, or ends too early, is not stored; one that is cut is
// sent again if it can be.
func TestPartFails(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, a, _ := pair(t, s)
		id := mustCreate(t, a, writer(33))
		wrong := errors.New("disk on fire")
		for _, n := range []int{10, payload.Small + 10, parts.MinSize} {
			for number := 1; number <= 2; number++ {
				r := io.MultiReader(bytes.NewReader(make([]byte, n)), failingReader{wrong})
				_, err := a.UploadPart(t.Context(), writer(33), "k", id, number, r, int64(n)+10)
				expect(t, fmt.Sprintf("part %d that fails after %d", number, n), err, wrong, guard.NotApplied)
				_, err = a.UploadPart(t.Context(), writer(33), "k", id, number, streamed{bytes.NewReader(make([]byte, n))}, int64(n)+10)
				expect(t, fmt.Sprintf("part %d that ends after %d", number, n), err, io.ErrUnexpectedEOF, guard.NotApplied)
			}
		}
		if listed, err := a.ListParts(t.Context(), writer(33), "k", id, 0, 0); err != nil || len(listed.ObjectParts) > 0 {
			t.Errorf("stored: %+v, %v", listed.ObjectParts, err)
		}
		e.link.CutBody(s3link.Op(s3link.UploadPart), 1, parts.MinSize/2)
		first := mustUpload(t, a, writer(33), id, 1, big[:parts.MinSize])
		e.link.CutBody(s3link.Op(s3link.UploadPart), 1, parts.MinSize/2)
		_, err := a.UploadPart(t.Context(), writer(33), "k", id, 2, streamed{strings.NewReader(big)}, int64(len(big)))
		if err == nil || !slices.Contains([]guard.Outcome{guard.NotApplied, guard.Unknown}, guard.OutcomeOf(err)) {
			t.Errorf("part of a stream that is cut: %v (%v)", err, guard.OutcomeOf(err))
		}
		if _, err := a.CopyPart(t.Context(), writer(33), "k", id, 2, CopySource{Key: "k"}, 1, 2); err != nil {
			t.Error(err)
		}
		listed, err := a.ListParts(t.Context(), writer(33), "k", id, 0, 0)
		if err != nil || len(listed.ObjectParts) != 2 || listed.ObjectParts[1].Size != 2 {
			t.Fatalf("stored: %+v, %v", listed.ObjectParts, err)
		}
		second := minio.CompletePart{PartNumber: 2, ETag: listed.ObjectParts[1].ETag}
		if _, err := completeBy(t, a, writer(33), id, first, second); err != nil {
			t.Error(err)
		}
		expectValue(t, a, writer(33), "k", big[:parts.MinSize]+"ld")
		_, err = a.CopyPart(t.Context(), writer(33), "k", mustCreate(t, a, writer(33)), 1, CopySource{Key: "k"}, parts.MinSize, 10)
		if !request.IsStatus(err, http.StatusRequestedRangeNotSatisfiable) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("copy of more than there is: %v (%v)", err, guard.OutcomeOf(err))
		}
	})
}

// I3: a write of the same token comes between the look and the completion, which
// is repeated for the new state.
func TestCompleteRaces(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, a, b := pair(t, s)
		id := mustCreate(t, a, writer(33))
		part := mustUpload(t, a, writer(33), id, 1, "new")
		held := e.link.Hold(s3link.Op(s3link.CompleteMultipartUpload), 1)
		done := make(chan error, 1)
		go func() {
			_, err := completeBy(t, a, writer(33), id, part)
			done <- err
		}()
		<-held.Taken()
		mustPut(t, b, writer(33), "k", "between")
		held.Abandon()
		expectUnknown(t, "complete whose reply is lost, overwritten by another", <-done)
		expectValue(t, b, writer(33), "k", "between")

		// Told that it lost, it is sent again.
		mustPut(t, b, writer(33), "k", "another") // a does not know of it
		e.link.Forget()
		e.link.Answer(s3link.Op(s3link.CompleteMultipartUpload), 1, http.StatusConflict, "ConditionalRequestConflict")
		e.link.Answer(s3link.Op(s3link.CompleteMultipartUpload), 2, http.StatusPreconditionFailed, "PreconditionFailed")
		if _, err := completeBy(t, a, writer(33), id, part); err != nil {
			t.Errorf("complete that has lost twice: %v", err)
		}
		if n := e.link.Count(s3link.CompleteMultipartUpload); n != 3 {
			t.Errorf("complete was sent %d times, want 3", n)
		}
		expectValue(t, b, writer(33), "k", "new")
		if data, h := e.stored(t, "k"); h.Number != 33 || len(data) != layout.HeaderSize+3 {
			t.Errorf("stored: %d bytes behind %+v", len(data), h)
		}
	})
}
