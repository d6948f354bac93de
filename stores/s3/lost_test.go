package s3store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
)

// writing is a write of the key "k" that a reply may be lost of.
type writing struct {
	name  string
	do    func(ctx context.Context, s *Store) error
	value string // what it leaves, "" for nothing
	// once: its request can be sent once only.
	once bool
}

var big = strings.Repeat("0123456789abcdef", parts.MinSize/16) + "end"

const byHand = "upload by hand"

func writings() []writing {
	put := func(name, value string, size int, wrap func(io.Reader) io.Reader) writing {
		return writing{name, func(ctx context.Context, s *Store) error {
			_, err := s.Put(ctx, writer(33), "k", wrap(strings.NewReader(value)), int64(size), PutOptions{})
			return err
		}, value, false}
	}
	plain := func(r io.Reader) io.Reader { return r }
	once := func(r io.Reader) io.Reader { return streamed{r} }
	medium := big[:payload.Small+1]
	stream := put("put of a stream", medium, len(medium), once)
	stream.once = true
	return []writing{
		put("put", "new", 3, plain),
		stream,
		put("put of unknown size", "new", -1, once),
		put("upload", big, len(big), plain),
		put("upload of a stream", big, len(big), once),
		put("upload of unknown size", big, -1, once),
		{"delete", func(ctx context.Context, s *Store) error { return s.Delete(ctx, writer(33), "k", DeleteOptions{}) }, "", false},
		{byHand, func(ctx context.Context, s *Store) error { return putShared(ctx, s, writer(33), "k", big) }, big, false},
	}
}

// cold returns a store that has claimed and knows nothing of the key, which
// holds "old".
func cold(tb testing.TB, s *testenv.S3Server) (*env, *Store) {
	tb.Helper()
	e := newEnv(tb, s, Config{PartSize: parts.MinSize})
	mustPut(tb, e.store, writer(33), "k", "old")
	another := e.newStore(tb, Config{PartSize: parts.MinSize})
	mustClaim(tb, another, writer(33))
	if err := another.tested.Uploads(tb.Context(), another.parts); err != nil {
		tb.Fatal(err)
	}
	e.link.Forget()
	return e, another
}

// holds compares what is at "k" with the outcome of a write.
func (w writing) holds(tb testing.TB, e *env, outcome guard.Outcome) {
	tb.Helper()
	strays := 0
	if w.name == byHand && outcome != guard.Applied { // its end is its caller's business
		strays = 1
	}
	w.holdsAnd(tb, e, outcome, strays)
}

// holdsAnd expects that so many uploads are left.
func (w writing) holdsAnd(tb testing.TB, e *env, outcome guard.Outcome, strays int) {
	tb.Helper()
	data, h := e.stored(tb, "k")
	got := string(data[min(len(data), 64):])
	applied := got == w.value && (w.value != "" || h.Kind == 'T')
	switch {
	case outcome == guard.Applied && !applied:
		tb.Errorf("acknowledged, and not there: %.40q (I2)", got)
	case outcome != guard.Applied && outcome != guard.Unknown && (applied || got != "old"):
		tb.Errorf("reported as %v, and there is %.40q (I2)", outcome, got)
	}
	if left := e.uploadsLeft(tb); len(left) > strays {
		tb.Errorf("uploads are left: %q", left)
	}
}

// I2: the reply to every single request of a write is lost, one at a time. All
// are found out to have been carried out.
func TestEveryReplyLost(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for _, w := range writings() {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					e, store := cold(t, s)
					e.link.DropReply(s3link.Op(), n)
					err := w.do(t.Context(), store)
					ops := e.link.Ops()
					strays := 0
					if len(ops) >= n && ops[n-1] == s3link.CreateMultipartUpload {
						strays = 1 // it has no parts, and nobody knows of it
					}
					w.holdsAnd(t, e, guard.OutcomeOf(err), strays)
					last := len(ops) >= n && slices.Contains([]string{s3link.PutObject, s3link.CompleteMultipartUpload}, ops[n-1])
					if last && err != nil {
						t.Errorf("reply %d of %q lost: %v", n, ops, err)
					}
					if err != nil && guard.OutcomeOf(err) == guard.Unknown {
						t.Errorf("reply %d of %q lost: unknown: %v", n, ops, err)
					}
					if len(ops) < n {
						return // that was all of them
					}
				}
			})
		}
	})
}

// A request that the server answers with an error, whether it has carried it
// out or not, at every place.
func TestAnsweredWithAnError(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for _, w := range writings() {
			for _, answer := range []struct {
				status  int
				code    string
				carried bool // the server does it all the same
				want    []guard.Outcome
			}{
				{409, "ConditionalRequestConflict", false, []guard.Outcome{guard.Applied, guard.NotApplied}},
				{403, "AccessDenied", false, []guard.Outcome{guard.NotApplied}},
				{503, "SlowDown", false, []guard.Outcome{guard.Applied}},
				{500, "InternalError", true, []guard.Outcome{guard.Applied}},
				{503, "SlowDown", true, []guard.Outcome{guard.Applied}},
				{412, "PreconditionFailed", true, []guard.Outcome{guard.Applied}}, // as after a retry that nobody knows of
				{200, "InternalError", true, []guard.Outcome{guard.Applied}},
			} {
				if answer.status == http.StatusOK && !strings.HasPrefix(w.name, "upload") {
					continue // only that is said so late
				}
				t.Run(fmt.Sprint(w.name, "/", answer.code, " ", answer.status, ", carried out ", answer.carried), func(t *testing.T) {
					t.Parallel()
					e, store := cold(t, s)
					match := s3link.Op(s3link.PutObject, s3link.CompleteMultipartUpload)
					if answer.carried {
						e.link.SpoilReply(match, 1, answer.status, answer.code)
					} else {
						e.link.Answer(match, 1, answer.status, answer.code)
					}
					err := w.do(t.Context(), store)
					if w.once && answer.status == http.StatusServiceUnavailable && !answer.carried {
						answer.want = []guard.Outcome{guard.Unknown} // it may yet be carried out
					}
					if !slices.Contains(answer.want, guard.OutcomeOf(err)) {
						t.Errorf("%v (%v), want %v", err, guard.OutcomeOf(err), answer.want)
					}
					w.holds(t, e, guard.OutcomeOf(err))
				})
			}
		}
	})
}

// A body that does not get through is not applied, wherever it is cut; a
// payload that can be read again is sent again.
func TestBodyCut(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for _, w := range writings() {
			if w.name == "delete" {
				continue
			}
			size := int64(len(w.value))
			for _, after := range []int64{size / 8, size} {
				t.Run(fmt.Sprint(w.name, " after ", after), func(t *testing.T) {
					t.Parallel()
					e, store := cold(t, s)
					e.link.CutBody(s3link.Op(s3link.PutObject, s3link.UploadPart), 1, after)
					err := w.do(t.Context(), store)
					want := []guard.Outcome{guard.Applied}
					if w.once { // if all of it has left, nobody here knows whether it arrived
						want = []guard.Outcome{guard.Unknown}
					}
					if w.once && after < size { // all of it may be in the kernel
						want = append(want, guard.NotApplied)
					}
					if !slices.Contains(want, guard.OutcomeOf(err)) {
						t.Errorf("%v (%v), want %v", err, guard.OutcomeOf(err), want)
					}
					w.holds(t, e, guard.OutcomeOf(err))
					if w.once {
						expectValue(t, store, writer(33), "k", "old")
					}
				})
			}
		}
	})
}

// Every reply to a claim is lost: it is made again, and is there (I8).
func TestClaimReplyLost(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		for n := 1; n <= 5; n++ {
			e := newEnv(t, s, Config{})
			e.link.DropReply(s3link.Op(), n)
			mustClaim(t, e.store, writer(33))
			e.link.SpoilReply(s3link.Op(s3link.PutObject), 1, 500, "InternalError")
			mustClaim(t, e.store, writer(34))
			e.link.Answer(s3link.Op(s3link.PutObject), 1, 409, "ConditionalRequestConflict")
			mustClaim(t, e.store, writer(35))
			mark, err := e.store.Mark(t.Context(), "orders")
			if err != nil || mark != (guard.Mark{Issuer: "i", Writer: 35, Holder: "h"}) {
				t.Errorf("mark is %+v, %v", mark, err)
			}
			twin := writer(35)
			twin.Holder = "twin"
			expect(t, "claim of the same number by another", e.newStore(t, Config{}).Claim(t.Context(), twin), guard.ErrDuplicate, guard.Refused)

			e.link.DropReply(s3link.Op(s3link.PutObject), 1)
			if err := e.store.Adopt(t.Context(), "orders", "j"); err != nil {
				t.Errorf("adoption whose reply is lost: %v", err)
			}
			e.link.Answer(s3link.Op(s3link.PutObject), 1, 403, "AccessDenied")
			err = e.store.Adopt(t.Context(), "orders", "k")
			if err == nil || guard.OutcomeOf(err) != guard.NotApplied {
				t.Errorf("adoption that is denied: %v (%v)", err, guard.OutcomeOf(err))
			}
			expect(t, "adoption by a former issuer", e.store.Adopt(t.Context(), "orders", "i"), ErrIssuerUsed, guard.NotApplied)
		}
	})
}
