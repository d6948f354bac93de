package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// botocore and aws-sdk-go-v2 repeat whatever comes as an error in a 200. A write
// that took long and lost to an older one is not carried out by that (I9).
func TestLateOlderWriteIsNotRepeated(t *testing.T) {
	t.Parallel()
	const key = "k"
	for name, c := range map[string]struct {
		op      string
		prepare func(t *testing.T, p place) (method, path, body string, header map[string]string)
		other   string // another proxy's answer to the repeat; "" if it has none
	}{
		"complete": {s3link.CompleteMultipartUpload, func(t *testing.T, p place) (string, string, string, map[string]string) {
			id := create(t, p, key, number(34))
			body := completeBody(upload(t, p, key, id, 1, "new", number(34)))
			return http.MethodPost, "/" + key + "?uploadId=" + id, body, map[string]string{}
		}, "NoSuchUpload"},
		"copy": {s3link.PutObject, func(t *testing.T, p place) (string, string, string, map[string]string) {
			p.put(t, "source", "new", number(34))
			return http.MethodPut, "/" + key, "", map[string]string{"X-Amz-Copy-Source": p.bucket + "/source"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			older, another := s.proxy(t), s.proxy(t)
			s.patience = time.Millisecond
			newer := s.proxy(t)
			older.put(t, key, "first", number(33))
			method, path, body, header := c.prepare(t, newer)
			header["Amz-Sdk-Invocation-Id"] = "one"
			send := func(p place) answered { return p.do(t, method, path, body, header, number(34)) }

			held := s.link.Hold(s3link.Op(c.op), 1)
			res := newer.begin(t, method, path, strings.NewReader(body), int64(len(body)), hexOf(body), header, number(34))
			defer res.Body.Close()
			<-held.Taken()
			older.put(t, key, "late", number(33))
			held.Abandon()
			text, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			answered{res.StatusCode, res.Header, string(text)}.expect(t, "late", http.StatusOK, "PreconditionFailed")

			send(newer).expect(t, "repeated", http.StatusPreconditionFailed, "PreconditionFailed")
			if c.other != "" {
				send(another).expect(t, "repeated elsewhere", http.StatusNotFound, c.other)
			}
			newer.holds(t, key, "late")
			if header["Amz-Sdk-Invocation-Id"] = "two"; name == "copy" { // the client has looked
				send(newer).expect(t, "another", http.StatusOK, "")
				newer.holds(t, key, "new")
			}
		})
	}
}
