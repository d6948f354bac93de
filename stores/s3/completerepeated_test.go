package s3store

import (
	"context"
	"net/http"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

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
