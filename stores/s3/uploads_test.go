package s3store

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// An upload whose creation fails, or whose reply is lost or names none, is begun
// again. Others of the same key, which have no part yet either, are let alone.
func TestUploadBegunAgain(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for name, c := range map[string]struct {
			fault func(l *testenv.S3Link)
			left  int
		}{
			"refused":      {func(l *testenv.S3Link) { l.Answer(s3link.Op(s3link.CreateMultipartUpload), 1, 500, "InternalError") }, 0},
			"error in 200": {func(l *testenv.S3Link) { l.Answer(s3link.Op(s3link.CreateMultipartUpload), 1, 200, "InternalError") }, 0},
			"lost":         {func(l *testenv.S3Link) { l.DropReply(s3link.Op(s3link.CreateMultipartUpload), 1) }, 1},
			"carried out":  {func(l *testenv.S3Link) { l.SpoilReply(s3link.Op(s3link.CreateMultipartUpload), 1, 503, "SlowDown") }, 1},
			"carried out, lost": {func(l *testenv.S3Link) {
				l.SpoilReply(s3link.Op(s3link.CreateMultipartUpload), 1, 200, "InternalError")
			}, 1},
		} {
			for kind, do := range map[string]func(*testing.T, *Store) error{
				"put": func(t *testing.T, store *Store) error {
					_, err := store.Put(t.Context(), writer(33), "k", strings.NewReader(big), int64(len(big)), PutOptions{})
					return err
				},
				"by hand": func(t *testing.T, store *Store) error { return putShared(t.Context(), store, writer(33), "k", big) },
			} {
				t.Run(name+", "+kind, func(t *testing.T) {
					t.Parallel()
					e, store := cold(t, s)
					another, err := (minio.Core{Client: e.bare}).NewMultipartUpload(t.Context(), e.bucket, "k", minio.PutObjectOptions{})
					if err != nil {
						t.Fatal(err)
					}
					c.fault(e.link)
					expect(t, "the upload", do(t, store), nil, guard.Applied)
					writing{value: big}.holdsAnd(t, e, guard.Applied, 1+c.left)
					if err := (minio.Core{Client: e.bare}).AbortMultipartUpload(t.Context(), e.bucket, "k", another); err != nil {
						t.Errorf("another's upload: %v", err)
					}
				})
			}
		}
	})
}

// A creation that is refused for good fails.
func TestUploadNotBegun(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, store := cold(t, s)
		e.link.Answer(s3link.Op(s3link.CreateMultipartUpload), 1, 403, "AccessDenied")
		_, err := store.CreateUpload(t.Context(), writer(33), "k", PutOptions{})
		if !request.IsCode(err, minio.AccessDenied) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%v (%v)", err, guard.OutcomeOf(err))
		}
		for n := 1; n <= request.MaxTries; n++ {
			e.link.Answer(s3link.Op(s3link.CreateMultipartUpload), n, 200, "InternalError")
		}
		if id, err := store.CreateUpload(t.Context(), writer(33), "k", PutOptions{}); err == nil || id != "" || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%q, %v (%v)", id, err, guard.OutcomeOf(err))
		}
	})
}

// An end that the server refuses was none; one whose first answer was lost may have been.
func TestUploadNotEnded(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, store := cold(t, s)
		id := mustCreate(t, store, writer(33))
		e.link.Answer(s3link.Op(s3link.AbortMultipartUpload), 1, 403, "AccessDenied")
		err := store.AbortUpload(t.Context(), writer(33), "k", id)
		if !request.IsCode(err, minio.AccessDenied) || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("refused: %v (%v)", err, guard.OutcomeOf(err))
		}
		e.link.DropReply(s3link.Op(s3link.AbortMultipartUpload), 1)
		e.link.Answer(s3link.Op(s3link.AbortMultipartUpload), 2, 403, "AccessDenied")
		err = store.AbortUpload(t.Context(), writer(33), "k", id)
		if !request.IsCode(err, minio.AccessDenied) || guard.OutcomeOf(err) != guard.Unknown {
			t.Errorf("answer lost, then refused: %v (%v)", err, guard.OutcomeOf(err))
		}
	})
}
