package sigv4

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The credentials of AWS's published examples, and ours.
const (
	exampleKey    = "AKIAIOSFODNN7EXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	exampleStamp  = "20130524T000000Z"
	exampleScope  = "20130524/us-east-1/s3/aws4_request"
)

// at returns a Verifier of the example's key whose clock stands.
func at(now time.Time) *Verifier {
	return New(Config{
		Secret: func(key string) (string, bool) { return exampleSecret, key == exampleKey },
		Now:    func() time.Time { return now },
	})
}

func exampleTime() time.Time { return time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC) }

// request parses a request as net/http's server does. Lines of the head may end
// with LF.
func request(t testing.TB, head string, body io.Reader) *http.Request {
	t.Helper()
	head = strings.ReplaceAll(strings.TrimSpace(head), "\n", "\r\n") + "\r\n\r\n"
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), body)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// payload verifies a request and reads its payload.
func payload(v *Verifier, r *http.Request) ([]byte, error) {
	q, err := v.Verify(r)
	if err != nil {
		return nil, err
	}
	p, err := q.Payload()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(p)
}

// code is that of an error, or "" if there is none.
func code(err error) string {
	if err == nil {
		return ""
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return err.Error()
}
