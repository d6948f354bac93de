package s3store

import (
	"bytes"
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
)

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
