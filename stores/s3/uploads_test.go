package s3store

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
)

// I3: an older holder that has lost the reply to the creation of an upload ends
// the current holder's, which has no part yet. That one is begun again.
func TestUploadEndedByAnother(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{PartSize: parts.MinSize})
		ctx := t.Context()
		mustPut(t, e.store, writer(33), "k", "old")
		link := s.Link(t)
		current, err := New(s.ClientAt(t, link.Endpoint()), Config{Bucket: e.bucket, PartSize: parts.MinSize})
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, current, writer(34), "k", "newer")
		if err := errors.Join(e.store.tested.Uploads(ctx, e.store.parts), current.tested.Uploads(ctx, current.parts)); err != nil {
			t.Fatal(err)
		}
		parts := []*s3link.Held{link.Hold(s3link.Op(s3link.UploadPart), 1), link.Hold(s3link.Op(s3link.UploadPart), 2)}
		done := make(chan error, 1)
		go func() {
			_, err := current.Put(ctx, writer(34), "k", strings.NewReader(big), int64(len(big)), PutOptions{})
			done <- err
		}()
		for _, part := range parts {
			<-part.Taken()
		}
		e.link.DropReply(s3link.Op(s3link.CreateMultipartUpload), 1)
		_, err = e.store.Put(ctx, writer(33), "k", strings.NewReader(big), int64(len(big)), PutOptions{})
		expect(t, "the older holder's upload", err, guard.ErrStale, guard.Refused)
		for _, part := range parts {
			if status, _, _ := part.Deliver(ctx); status == http.StatusOK { // versitygw may hang up instead
				t.Error("the upload was not ended")
			}
			part.Abandon()
		}
		expect(t, "the current holder's upload", <-done, nil, guard.Applied)
		writing{value: big}.holds(t, e, guard.Applied)
	})
}

// An upload whose creation was carried out and answered with an error is found
// and ended, although the listing fails at first and another upload there ends
// meanwhile.
func TestLostUploadIsFound(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, store := cold(t, s)
		core := minio.Core{Client: e.bare}
		ended := map[string]bool{}
		for range 3 { // whichever is listed first
			id, err := core.NewMultipartUpload(t.Context(), e.bucket, "k", minio.PutObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ended[id] = true
		}
		of := func(r s3link.Request) bool { return r.Op == s3link.ListParts && ended[r.Query.Get("uploadId")] }
		for n := 1; n <= len(ended); n++ {
			e.link.Answer(of, n, http.StatusNotFound, minio.NoSuchUpload)
		}
		e.link.SpoilReply(s3link.Op(s3link.CreateMultipartUpload), 1, http.StatusServiceUnavailable, "SlowDown")
		e.link.Answer(s3link.Op(s3link.ListMultipartUploads), 1, http.StatusServiceUnavailable, "SlowDown")
		_, err := store.Put(t.Context(), writer(33), "k", strings.NewReader(big), int64(len(big)), PutOptions{})
		if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%v (%v)", err, guard.OutcomeOf(err))
		}
		if left := e.uploadsLeft(t); len(left) != len(ended) {
			t.Errorf("%d uploads are left, want %d", len(left), len(ended))
		}
	})
}
