package ways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errSome = errors.New("exit status 1")

// What bare clients are told, and what that means. An outcome that is not certain
// is unknown: a checker believes all others.
func TestWhatClientsAreTold(t *testing.T) {
	t.Parallel()
	ofServer := func(severity, code string) error { return &pgconn.PgError{SeverityUnlocalized: severity, Code: code} }
	aws := func(code string) error { return (&awsClient{}).judge(code, errSome) }
	for _, c := range []struct {
		name    string
		err     error
		outcome guard.Outcome
		reason  string
	}{
		{"pgx, refused", answered(ofServer("ERROR", "TK001"), true), guard.Refused, "stale"},
		{"pgx, failed", answered(ofServer("ERROR", "40001"), true), guard.NotApplied, "40001"},
		{"pgx, session ended behind COMMIT", answered(ofServer("FATAL", "57P01"), true), guard.Unknown, "57P01"},
		{"pgx, session ended before COMMIT", answered(ofServer("FATAL", "57P01"), false), guard.NotApplied, "57P01"},
		{"pgx, no answer", answered(io.ErrUnexpectedEOF, true), guard.Unknown, ""},
		{"pgx, no answer in time", answered(fmt.Errorf("%w", context.DeadlineExceeded), true), guard.Unknown, "timeout"},
		{"psql, refused", judgePsql("psql:<stdin>:1: ERROR:  TK003\n", errSome), guard.Refused, "foreign"},
		{"psql, failed", judgePsql("psql:<stdin>:1: ERROR:  40P01\n", errSome), guard.NotApplied, ""},
		{"psql, not let in", judgePsql("psql: error: connection to server at …: FATAL:  57P03", errSome), guard.NotApplied, ""},
		{"psql, session ended", judgePsql("psql:<stdin>:1: FATAL:  57P01\nserver closed the connection unexpectedly", errSome), guard.Unknown, ""},
		{"psql, killed", judgePsql("", errSome), guard.Unknown, ""},
		{"S3, refused", answeredS3(412, "FenceTokenStale", errSome), guard.Refused, "stale"},
		{"S3, condition false", answeredS3(412, "PreconditionFailed", errSome), guard.NotApplied, ""},
		{"S3, fence not reached", answeredS3(503, "FenceUnavailable", errSome), guard.NotApplied, ""},
		{"S3, failed", answeredS3(500, "InternalError", errSome), guard.Unknown, ""},
		{"S3, slow down", answeredS3(503, "SlowDown", errSome), guard.Unknown, ""},
		{"S3, no answer", answeredS3(0, "", errSome), guard.Unknown, ""},
		{"aws, refused", aws("FenceTokenDuplicate"), guard.Refused, "duplicate"},
		{"aws, condition false", aws("PreconditionFailed"), guard.NotApplied, ""},
		{"aws, some other code", aws("InternalError"), guard.Unknown, ""},
		{"aws, no answer", aws(""), guard.Unknown, ""},
	} {
		if got := guard.OutcomeOf(c.err); got != c.outcome {
			t.Errorf("%s: %v, want %v", c.name, got, c.outcome)
		}
		if got := Reason(c.err); got != c.reason {
			t.Errorf("%s: reason %q, want %q", c.name, got, c.reason)
		}
	}
}

func TestEveryWayOpens(t *testing.T) {
	t.Parallel()
	for name := range table {
		w, err := Open(name, Access{S3: Bucket{Endpoint: "127.0.0.1:1", Bucket: "app"}}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w.Close()
	}
	if _, err := Open("by the back door", Access{}, nil); err == nil {
		t.Error("a way that there is not was opened")
	}
}
