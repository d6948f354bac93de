package s3store

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// A write that the server did not carry out takes nothing from what its holder has seen:
// the next one tells of an older write that came in between (I9), once.
func TestSeenBeforeAFailure(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for name, c := range map[string]struct {
			status int
			code   string
			looks  int // that fail as well
		}{
			"busy": {http.StatusServiceUnavailable, "SlowDown", 4}, "bad request": {http.StatusBadRequest, "InvalidStorageClass", 0},
			"denied": {http.StatusForbidden, "AccessDenied", 0}, "not allowed": {http.StatusMethodNotAllowed, "MethodNotAllowed", 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, s, Config{})
				other := e.newStore(t, Config{})
				mustPut(t, other, writer(33), "k", "A")
				mustClaim(t, e.store, writer(34))
				expectValue(t, e.store, writer(34), "k", "A")
				of := func(op string) func(s3link.Request) bool {
					return func(r s3link.Request) bool { return r.Op == op && r.Key == "k" }
				}
				e.link.Answer(of(s3link.PutObject), 1, c.status, c.code)
				for n := range c.looks {
					e.link.Answer(of(s3link.GetObject), n+1, c.status, c.code)
				}
				put := func() error {
					_, err := e.store.Put(t.Context(), writer(34), "k", strings.NewReader("A+1"), 3, PutOptions{})
					return err
				}
				if err := put(); err == nil || guard.OutcomeOf(err) == guard.Applied {
					t.Fatal(err)
				}
				mustPut(t, other, writer(33), "k", "late")
				expect(t, "again", put(), ErrOlderWrite, guard.NotApplied)
				expect(t, "when that was told", put(), nil, guard.Applied)
			})
		}
	})
}

// That there is nothing is seen too.
func TestAbsenceIsSeen(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		other := e.newStore(t, Config{})
		mustClaim(t, other, writer(33))
		for key, read := range map[string]func(key string) error{
			"got": func(key string) error {
				_, err := e.store.Get(t.Context(), writer(34), key, GetOptions{})
				return err
			},
			"looked at": func(key string) error {
				_, err := e.store.Stat(t.Context(), writer(34), key, GetOptions{})
				return err
			},
		} {
			if err := read(key); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			mustPut(t, other, writer(33), key, "late")
			_, err := e.store.Put(t.Context(), writer(34), key, strings.NewReader("new"), 3, PutOptions{})
			expect(t, key, err, ErrOlderWrite, guard.NotApplied)
			expectValue(t, e.store, writer(34), key, "late")
		}
	})
}

// limited is a server that is asked for no more than S3 takes in one PUT.
type limited struct {
	minio.Core

	tb testing.TB
}

func (l limited) PutObject(ctx context.Context, bucket, key string, body io.Reader, size int64, md5, sha string, o minio.PutObjectOptions) (minio.UploadInfo, error) {
	if size > 5<<30 {
		l.tb.Errorf("a PUT of %d bytes", size)
		return minio.UploadInfo{}, minio.ErrorResponse{StatusCode: http.StatusBadRequest, Code: "EntityTooLarge"}
	}
	if size > 1<<30 { // which is not sent
		return minio.UploadInfo{}, minio.ErrorResponse{StatusCode: http.StatusBadRequest, Code: "TooLongForATest"}
	}
	return l.Core.PutObject(ctx, bucket, key, body, size, md5, sha, o)
}

// What S3 takes in one PUT is with the header.
func TestLargestPut(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	const most = 5 << 30
	s := e.newStore(t, Config{PartSize: most, Objects: limited{minio.Core{Client: e.server.ClientAt(t, e.link.Endpoint())}, t}})
	for _, size := range []int64{most - 64, most - 63, most} {
		ctx, cancel := context.WithCancel(t.Context())
		r := &zeros{cancel: cancel}
		_, err := s.Put(ctx, writer(33), "k", r, size, PutOptions{})
		cancel()
		if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%d bytes: %v", size, err)
		}
		if got := r.read; got != (size > most-64) {
			t.Errorf("%d bytes: they are uploaded in parts: %v", size, got)
		}
	}
}

// zeros ends the context of whoever reads it.
type zeros struct {
	cancel context.CancelFunc
	read   bool
}

func (z *zeros) Read(p []byte) (int, error) {
	z.read = true
	z.cancel()
	return 0, context.Canceled
}
