package s3store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// hooked are objects of which something happens before the first look at one that
// follows a completion.
type hooked struct {
	minio.Core

	link   *testenv.S3Link
	before func() error
	once   sync.Once
}

func (h *hooked) GetObject(ctx context.Context, bucket, key string, o minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error) {
	var err error
	if h.link.Count(s3link.CompleteMultipartUpload) > 0 {
		h.once.Do(func() { err = h.before() })
	}
	if err != nil {
		return nil, minio.ObjectInfo{}, nil, err
	}
	return h.Core.GetObject(ctx, bucket, key, o)
}

// hook returns a store of which before happens between its first completion and the
// look that it takes at what it has made.
func (e *env) hook(tb testing.TB, before func() error) *Store {
	tb.Helper()
	core := minio.Core{Client: e.server.ClientAt(tb, e.link.Endpoint())}
	s := e.newStore(tb, Config{Objects: &hooked{Core: core, link: e.link, before: before}})
	mustClaim(tb, s, writer(33))
	e.link.Forget()
	return s
}

// Of two uploads of a key that are completed at the same moment, one is overwritten
// before it can be looked at. It was carried out all the same.
func TestTwoUploadsCompletedAtOnce(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for _, look := range []error{nil, errors.New("it cannot be looked at")} {
			e, _, b := pair(t, s)
			first, second := mustCreate(t, b, writer(33)), mustCreate(t, b, writer(33))
			one, two := mustUpload(t, b, writer(33), first, 1, "first"), mustUpload(t, b, writer(33), second, 1, "second")
			a := e.hook(t, func() error {
				if _, err := completeBy(t, b, writer(33), second, two); err != nil {
					t.Errorf("the other: %v", err)
				}
				return look
			})
			if _, err := completeBy(t, a, writer(33), first, one); err != nil {
				t.Errorf("completed and overwritten: %v", err)
			}
			expectValue(t, a, writer(33), "k", "second")
			mustPut(t, a, writer(33), "k", "next")
			expectValue(t, b, writer(33), "k", "next")
		}
	})
}

// A completion of an upload that is gone is not taken for carried out because the key
// is another one afterwards: versitygw acknowledges it.
func TestAbortedUploadCompletedAtOnce(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e, _, b := pair(t, s)
		id := mustCreate(t, b, writer(33))
		part := mustUpload(t, b, writer(33), id, 1, "aborted")
		if err := b.AbortUpload(t.Context(), writer(33), "k", id); err != nil {
			t.Fatal(err)
		}
		a := e.hook(t, func() error {
			mustPut(t, b, writer(33), "k", "between")
			return nil
		})
		if _, err := completeBy(t, a, writer(33), id, part); err == nil || guard.OutcomeOf(err) == guard.Applied {
			t.Errorf("an upload that was aborted: %v", err)
		}
		expectValue(t, b, writer(33), "k", "between")
	})
}

// An upload is completed by two processes at the same moment. Both are told that
// it was.
func TestUploadCompletedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		_, a, b := pair(t, s)
		for range 4 {
			id := mustCreate(t, a, writer(33))
			list := []minio.CompletePart{
				mustUpload(t, a, writer(33), id, 1, big[:parts.MinSize]), mustUpload(t, b, writer(33), id, 2, "end"),
			}
			var group sync.WaitGroup
			for _, by := range []*Store{a, b} {
				group.Go(func() {
					if _, err := completeBy(t, by, writer(33), id, list...); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			expectValue(t, b, writer(33), "k", big[:parts.MinSize]+"end")
		}
	})
}

// lagging shows what the key was at first, before another process completed its
// upload, a few times more.
type lagging struct {
	minio.Core

	complete func()
	first    *lag
	left     int
}

type lag struct {
	body   []byte
	info   minio.ObjectInfo
	header http.Header
}

func (l *lagging) GetObject(ctx context.Context, bucket, key string, o minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error) {
	if l.first != nil && l.left > 0 {
		l.left--
		return io.NopCloser(bytes.NewReader(l.first.body)), l.first.info, l.first.header, nil
	}
	body, info, header, err := l.Core.GetObject(ctx, bucket, key, o)
	if err != nil || l.first != nil {
		return body, info, header, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	l.first = &lag{data, info, header}
	l.complete()
	return io.NopCloser(bytes.NewReader(data)), info, header, err
}

// versitygw acknowledges the completion of an upload while it carries out another of
// the same upload: nothing is there yet, and the upload is gone.
func TestCompletionBehindAnother(t *testing.T) {
	t.Parallel()
	e, _, b := pair(t, testenv.S3(t))
	id := mustCreate(t, b, writer(33))
	part := mustUpload(t, b, writer(33), id, 1, "new")
	a := e.newStore(t, Config{Objects: &lagging{
		Core: minio.Core{Client: e.server.ClientAt(t, e.link.Endpoint())}, left: 4,
		complete: func() {
			if _, err := completeBy(t, b, writer(33), id, part); err != nil {
				t.Errorf("the other: %v", err)
			}
		},
	}})
	if _, err := completeBy(t, a, writer(33), id, part); err != nil {
		t.Error(err)
	}
	expectValue(t, a, writer(33), "k", "new")
}

// Nobody knows how long the other takes. Whoever waits for it no more has not seen that
// it comes to nothing (I2), whatever the key shows so far.
func TestCompletionBehindSlowOther(t *testing.T) {
	t.Parallel()
	e, _, b := pair(t, testenv.S3(t))
	mustClaim(t, b, writer(34))
	id := mustCreate(t, b, writer(34))
	part := mustUpload(t, b, writer(34), id, 1, "new")
	a := e.newStore(t, Config{Objects: &lagging{
		Core: minio.Core{Client: e.server.ClientAt(t, e.link.Endpoint())}, left: 1000,
		complete: func() {
			if _, err := completeBy(t, b, writer(34), id, part); err != nil {
				t.Errorf("the other: %v", err)
			}
		},
	}})
	_, err := completeBy(t, a, writer(34), id, part)
	expectUnknown(t, "completed behind another", err)
	if !request.IsCode(err, minio.NoSuchUpload) {
		t.Error(err)
	}
	expectValue(t, b, writer(34), "k", "new")
}

// An upload that is not there any more does not become the object, however often the
// server says so.
func TestCompleteOfWhatIsGone(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		_, a, b := pair(t, s)
		id := mustCreate(t, a, writer(33))
		part := mustUpload(t, a, writer(33), id, 1, "gone")
		if err := b.AbortUpload(t.Context(), writer(33), "k", id); err != nil {
			t.Fatal(err)
		}
		_, err := completeBy(t, b, writer(33), id, part)
		if !request.IsCode(err, minio.NoSuchUpload) {
			t.Errorf("completed: %v", err)
		}
		expectValue(t, b, writer(33), "k", "old")
		honest, err := b.tested.Honest(t.Context(), b.parts)
		if want := s.Name() != "versitygw"; err != nil || honest != want {
			t.Errorf("%s is honest: %v, %v", s.Name(), honest, err)
		}
		if left := strings.Join(uploadsOf(t, b), " "); left != "" {
			t.Errorf("uploads left: %s", left)
		}
	})
}

func uploadsOf(tb testing.TB, s *Store) (keys []string) {
	tb.Helper()
	err := s.parts.Each(tb.Context(), "", func(u minio.ObjectMultipartInfo) error {
		keys = append(keys, u.Key)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}
