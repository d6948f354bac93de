package s3store

import (
	"context"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
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
		// object that an older one wrote: his was never there. Of versitygw he cannot
		// know: it answers as if another process was about to complete the upload.
		want := guard.NotApplied
		if s.Name() == "versitygw" {
			want = guard.Unknown
		}
		_, err = completeBy(t, a, writer(34), id, part)
		if !request.IsCode(err, minio.NoSuchUpload) || guard.OutcomeOf(err) != want {
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
