package s3store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// answers is a transport that changes what the server answers.
type answers struct {
	http.RoundTripper
	change func(*http.Response)
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		a.change(answer)
	}
	return answer, err
}

// answered returns a store whose reads of keys that hold a text are answered
// otherwise than the server does.
func (e *env) answered(tb testing.TB, text string, change func(*http.Response), c Config) *Store {
	tb.Helper()
	transport := &http.Transport{DisableCompression: true}
	tb.Cleanup(transport.CloseIdleConnections)
	client, err := minio.New(e.server.Endpoint(), &minio.Options{
		Creds:  credentials.NewStaticV4(e.server.AccessKey, e.server.SecretKey, ""),
		Region: e.server.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
		Transport: answers{transport, func(answer *http.Response) {
			if r := answer.Request; r.Method == http.MethodGet && strings.Contains(r.URL.Path, text) {
				change(answer)
			}
		}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	c.Bucket = e.bucket
	s, err := New(client, c)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// A file that was put into versitygw's folder has no ETag. It is not taken for
// absent, nor skipped.
func TestObjectsWithoutETag(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	ctx := t.Context()
	e.putBare(t, "dir/k", strings.Repeat("bare", 20))
	without := func(answer *http.Response) { answer.Header.Del("ETag") }
	s := e.answered(t, "dir/k", without, Config{Legacy: true})
	mustClaim(t, s, writer(33))
	_, err := read(ctx, s, writer(33), "dir/k", GetOptions{})
	expect(t, "get", err, guard.ErrUnsupported, guard.Refused)
	_, err = read(ctx, s, writer(33), "dir/k", GetOptions{Offset: 3})
	expect(t, "get of a part", err, guard.ErrUnsupported, guard.Refused)
	_, err = s.Stat(ctx, writer(33), "dir/k", GetOptions{})
	expect(t, "stat", err, guard.ErrUnsupported, guard.Refused)
	_, err = s.Put(ctx, writer(33), "dir/k", strings.NewReader("v"), 1, PutOptions{})
	expect(t, "put", err, guard.ErrUnsupported, guard.Refused)
	expect(t, "delete", s.Delete(ctx, writer(33), "dir/k", DeleteOptions{}), guard.ErrUnsupported, guard.Refused)
	var last Progress
	err = s.Frame(ctx, writer(33), "dir/", func(p Progress) { last = p })
	if !errors.Is(err, guard.ErrUnsupported) || last.Failed != 1 || last.Skipped != 0 {
		t.Errorf("frame: %v, %+v", err, last)
	}
	for info, err := range s.List(ctx, writer(33), ListOptions{Prefix: "dir/"}) {
		if !errors.Is(err, guard.ErrUnsupported) || !errors.Is(err, request.ErrNoETag) {
			t.Errorf("listed: %q, %v", info.Key, err)
		}
	}
	if e := (&Store{}).judge(minio.ObjectInfo{Key: "k", Size: 1000, LastModified: time.Now()}); e.err == nil || e.hidden {
		t.Errorf("an entry without an ETag is listed as %+v", e)
	}

	marked := e.answered(t, layout.MarkKey("orders"), without, Config{})
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // it went on for ever
	defer cancel()
	expect(t, "claim of a mark without an ETag", marked.Claim(ctx, writer(34)), guard.ErrUnsupported, guard.Refused)
}

// A proxy between that does not tell the length of what it passes on is no
// reason to panic.
func TestAnswersWithoutLength(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	mustPut(t, e.store, writer(33), "k", "hello")
	for name, change := range map[string]func(*http.Response){
		"no length":   func(answer *http.Response) { answer.Header.Del("Content-Length"); answer.Header.Del("Content-Range") },
		"less than 0": func(answer *http.Response) { answer.Header.Set("Content-Range", "bytes 0-63/-5") },
	} {
		s := e.answered(t, "/k", change, Config{})
		if got, err := read(t.Context(), s, writer(33), "k", GetOptions{}); err == nil {
			t.Errorf("%s: %q", name, got)
		}
		_, err := s.Put(t.Context(), writer(33), "k", strings.NewReader("v"), 1, PutOptions{})
		if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
			t.Errorf("%s: %v (%v)", name, err, guard.OutcomeOf(err))
		}
	}
	expectValue(t, e.store, writer(33), "k", "hello")
}

// Ranges whose numbers have no room for the header are what they are elsewhere.
func TestRangesBeyondAllNumbers(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		mustPut(t, e.store, writer(33), "k", "hello")
		for o, want := range map[GetOptions]string{
			{Offset: 1, Length: math.MaxInt64}:      "ello",
			{Offset: 2, Length: math.MaxInt64 - 60}: "llo",
			{Length: math.MaxInt64}:                 "hello",
			{Offset: math.MinInt64}:                 "hello",
		} {
			if got, err := read(t.Context(), e.store, writer(33), "k", o); got != want || err != nil {
				t.Errorf("from %d %d: %q, %v, want %q", o.Offset, o.Length, got, err, want)
			}
		}
		for _, o := range []GetOptions{{Offset: math.MaxInt64}, {Offset: math.MaxInt64 - 64, Length: 5}, {Offset: math.MaxInt64 - 63}} {
			got, err := read(t.Context(), e.store, writer(33), "k", o)
			if !request.IsStatus(err, http.StatusRequestedRangeNotSatisfiable) {
				t.Errorf("from %d: %q, %v", o.Offset, got, err)
			}
		}
	})
}

// What a store that keeps objects as files takes for the fence's own keys is
// the fence's own, legacy objects or not: a mark must not go down (I6).
func TestOtherNamesOfTheMark(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{Legacy: true})
		ctx := t.Context()
		mustClaim(t, e.store, writer(33))
		for _, before := range []string{"/", "//", "./", "a/../", ".fence/../"} {
			key := before + layout.MarkKey("orders")
			_, err := read(ctx, e.store, writer(33), key, GetOptions{})
			expect(t, "get of "+key, err, guard.ErrUnsupported, guard.Refused)
			_, err = e.store.Put(ctx, writer(33), key, strings.NewReader("v"), 1, PutOptions{})
			expect(t, "put of "+key, err, guard.ErrUnsupported, guard.Refused)
			expect(t, "delete of "+key, e.store.Delete(ctx, writer(33), key, DeleteOptions{}), guard.ErrUnsupported, guard.Refused)
		}
		if mark, err := e.newStore(t, Config{}).Mark(ctx, "orders"); mark.Writer != 33 || err != nil {
			t.Errorf("mark is %+v, %v", mark, err)
		}
	})
}

// I2: a context that ends while many keys are being deleted is told, and so is
// each key that was touched.
func TestDeleteManyStopped(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{Parallel: 2})
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint("k", i))
		mustPut(t, e.store, writer(33), keys[i], "v")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := map[string]error{}
	for key, err := range e.store.DeleteMany(ctx, writer(33), slices.Values(keys)) {
		if told[key] = err; len(told) == 5 {
			cancel()
		}
	}
	if err := told[""]; !errors.Is(err, context.Canceled) || guard.OutcomeOf(err) != guard.NotApplied {
		t.Errorf("ended with %v (%v)", err, guard.OutcomeOf(err))
	}
	for _, key := range keys {
		_, h := e.stored(t, key)
		if err, known := told[key]; h.Kind == layout.Tombstone && (!known || guard.OutcomeOf(err) != guard.Applied && guard.OutcomeOf(err) != guard.Unknown) {
			t.Errorf("%s was deleted, and told is %v, %v", key, known, err)
		}
	}
}

// A claim does not wait longer than its context for the test of the server that
// another has begun.
func TestSelfTestOfAnother(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	held := e.link.Hold(s3link.Op(s3link.PutObject), 1)
	first := make(chan error, 1)
	go func() { first <- e.store.Claim(t.Context(), writer(33)) }()
	<-held.Taken()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := writer(1)
	other.Resource = "other"
	expect(t, "claim whose context has ended", e.store.Claim(ctx, other), context.Canceled, guard.NotApplied)
	held.Abandon()
	if err := <-first; err != nil {
		t.Error(err)
	}
	mustClaim(t, e.store, other)
}

// I2: an adoption whose reply is lost, and which another one has followed, was
// carried out.
func TestAdoptionFollowedByAnother(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	mustClaim(t, e.store, writer(33))
	held := e.link.Hold(s3link.Op(s3link.PutObject), 1)
	done := make(chan error, 1)
	go func() { done <- e.store.Adopt(t.Context(), "orders", "j") }()
	<-held.Taken()
	if status, answer, err := held.Deliver(t.Context()); status != http.StatusOK || err != nil {
		t.Fatal(status, answer, err)
	}
	other := e.newStore(t, Config{})
	if err := other.Adopt(t.Context(), "orders", "k"); err != nil {
		t.Fatal(err)
	}
	held.Abandon()
	expect(t, "the first adoption", <-done, nil, guard.Applied)
	expect(t, "again", e.store.Adopt(t.Context(), "orders", "j"), ErrIssuerUsed, guard.NotApplied)
	if mark, err := other.Mark(t.Context(), "orders"); err != nil || mark != (guard.Mark{Issuer: "k", Generation: 2}) {
		t.Errorf("mark is %+v, %v", mark, err)
	}
}
