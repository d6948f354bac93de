package refusal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	presented = guard.Token{Resource: "orders", Number: 33, Mode: guard.Exclusive, Holder: "secret-holder", Issuer: "i"}
	mark      = guard.Mark{Issuer: "i", Writer: 34, Holder: "secret-holder"}
)

func upstreamError(status int, code string) error {
	return minio.ErrorResponse{StatusCode: status, Code: code, Message: "The store's words."}
}

func done(err error, o guard.Outcome) error {
	return guard.WithOutcome(fmt.Errorf("put %q: %w", "k", err), o)
}

// cases are errors by what they are called in the golden file. All but those of
// reads are of writes.
func cases() []struct {
	name string
	err  error
} {
	lost := &url.Error{Op: "Put", URL: "http://store/b/k?uploadId=secret", Err: io.EOF}
	cases := []struct {
		name string
		err  error
	}{
		{"own", New(NotImplemented, "The header %s is not implemented.", "x")},
		{"own, in a chain", fmt.Errorf("a: %w", New(AccessDenied, "Access Denied"))},
		{"fence", Fence(guard.ErrNoToken, "the request carries none")},
		{"signature", &sigv4.Error{Code: "SignatureDoesNotMatch", Status: 403, Message: "It does not match."}},
		{"signature, other region", &sigv4.Error{Code: "AuthorizationHeaderMalformed", Status: 400, Message: "Wrong region.", Region: "eu-1"}},
		{"signature of a body that was being written", done(&sigv4.Error{Code: "BadDigest", Status: 400, Message: "It is another."}, guard.NotApplied)},
		{"signature of a body of which some may be there", done(errors.Join(errors.New("kept some"), &sigv4.Error{Code: "BadDigest", Status: 400, Message: "It is another."}), guard.Unknown)},
		{"XML", fmt.Errorf("read: %w", &s3xml.SyntaxError{})},
		{"XML too large", s3xml.ErrTooLarge},
		{"not found", done(s3store.ErrNotFound, guard.NotApplied)},
		{"not modified", done(s3store.ErrNotModified, guard.NotApplied)},
		{"precondition", done(s3store.ErrPrecondition, guard.NotApplied)},
		{"conflict with the same token", done(s3store.ErrConflict, guard.NotApplied)},
		{"conflict with an older token", done(s3store.ErrOlderWrite, guard.NotApplied)},
		{"body too slow", done(&BodyError{os.ErrDeadlineExceeded}, guard.NotApplied)},
		{"body broken off", done(&BodyError{errors.New("reset")}, guard.NotApplied)},
		{"no answer", lost},
		{"no answer, unknown", done(lost, guard.Unknown)},
		{"no answer, not applied", done(lost, guard.NotApplied)},
		{"context", done(context.DeadlineExceeded, guard.NotApplied)},
		{"overtaken, and unknown", done(errors.Join(&guard.RefusedError{Reason: guard.ErrStale, Token: presented, Mark: mark}, lost), guard.Unknown)},
	}
	for _, r := range carrier.Refusals() {
		cases = append(cases, struct {
			name string
			err  error
		}{"refused: " + r.Reason.Error(), fmt.Errorf("put %q: %w", "k", &guard.RefusedError{Reason: fmt.Errorf("%w: and why", r.Reason), Token: presented, Mark: mark})})
	}
	for _, u := range []struct {
		status int
		code   string
	}{
		{404, "NoSuchBucket"},
		{404, "NoSuchUpload"},
		{400, "EntityTooSmall"},
		{403, "AccessDenied"},
		{403, "InvalidAccessKeyId"},
		{404, "XAdminUserNotFound"},
		{403, "UserSuspended"},
		{403, "SignatureDoesNotMatch"},
		{416, "InvalidRange"},
		{409, "OperationAborted"},
		{412, "PreconditionFailed"},
		{500, "InternalError"},
		{503, "SlowDown"},
		{503, "ServiceUnavailable"},
		{501, "NotImplemented"},
		{301, "PermanentRedirect"},
		{307, "TemporaryRedirect"},
		{200, "InternalError"},
		{502, "502 Bad Gateway"},
		{418, "418 I'm a teapot"},
		{400, ""},
	} {
		for _, o := range []guard.Outcome{guard.NotApplied, guard.Unknown} {
			cases = append(cases, struct {
				name string
				err  error
			}{fmt.Sprintf("store: %d %s, %s", u.status, u.code, o), done(upstreamError(u.status, u.code), o)})
		}
	}
	return cases
}

// What clients see, of each error.
func TestAnswers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, c := range cases() {
		read, write := line(Of(c.err, operation.Read)), line(Of(c.err, operation.Write))
		if read == write {
			fmt.Fprintf(&b, "%s\n    %s\n", c.name, read)
		} else {
			fmt.Fprintf(&b, "%s\n    of a read: %s\n    of a write: %s\n", c.name, read, write)
		}
		// I2: clients take a 4xx for not carried out, and so a write of which that
		// is not known must be none.
		if o := (*guard.OutcomeError)(nil); errors.As(c.err, &o) && o.Known == guard.Unknown && Of(c.err, operation.Write).Status < http.StatusInternalServerError {
			t.Errorf("%s: %s", c.name, write)
		}
	}
	got := b.String()
	for _, secret := range []string{"secret", "http://store"} {
		if strings.Contains(got, secret) {
			t.Errorf("clients see %q", secret)
		}
	}
	path := filepath.Join("testdata", "answers.golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what it was:\n%s", path, got)
	}
}

func line(e *Error) string {
	text := fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message)
	if e.Reason != "" {
		text += " [" + e.Reason + "]"
	}
	if len(e.Extra) > 0 {
		text += fmt.Sprint(" ", e.Extra)
	}
	return text
}

func TestCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []Code{AccessDenied, EntityTooLarge, InternalError, NoSuchKey, NotModified, SlowDown} {
		if http.StatusText(c.Status()) == "" {
			t.Errorf("%s has status %d", c, c.Status())
		}
	}
}
