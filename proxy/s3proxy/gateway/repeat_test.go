package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

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
		status  int // of another proxy's answer to the repeat
		code    string
	}{
		"complete": {s3link.CompleteMultipartUpload, func(t *testing.T, p place) (string, string, string, map[string]string) {
			id := create(t, p, key, number(34))
			body := completeBody(upload(t, p, key, id, 1, "new", number(34)))
			return http.MethodPost, "/" + key + "?uploadId=" + id, body, map[string]string{}
		}, http.StatusNotFound, "NoSuchUpload"},
		"copy": {s3link.PutObject, func(t *testing.T, p place) (string, string, string, map[string]string) {
			p.put(t, "source", "new", number(34))
			return http.MethodPut, "/" + key, "", map[string]string{"X-Amz-Copy-Source": p.bucket + "/source"}
		}, http.StatusPreconditionFailed, "PreconditionFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			older, another := s.proxy(t), s.proxy(t)
			s.patience = time.Millisecond
			newer := s.proxy(t)
			older.put(t, key, "first", number(33))
			method, path, body, header := c.prepare(t, newer)
			header["Amz-Sdk-Invocation-Id"], header["Amz-Sdk-Request"] = "one", "attempt=1; max=5"
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

			header["Amz-Sdk-Request"] = "attempt=2; max=5"
			send(newer).expect(t, "repeated", http.StatusPreconditionFailed, "PreconditionFailed")
			send(another).expect(t, "repeated elsewhere", c.status, c.code)
			newer.holds(t, key, "late")
			if header["Amz-Sdk-Invocation-Id"] = "two"; name == "copy" { // the client has looked
				send(another).expect(t, "another", http.StatusOK, "")
				newer.holds(t, key, "new")
			}
		})
	}
}

// Nor is one that did not take long, whose answer was lost on the way: its SDK has the
// same id for all attempts, and its program has not been told (I9).
func TestLostRefusalIsNotRepeatedUnseen(t *testing.T) {
	t.Parallel()
	const all = "<Delete><Object><Key>k</Key></Object><Object><Key>free</Key></Object></Delete>"
	for what, send := range map[string]func(t *testing.T, p place, id string, h map[string]string) answered{
		"put": func(t *testing.T, p place, _ string, h map[string]string) answered {
			return p.do(t, http.MethodPut, "/k", "A+1", h, number(2))
		},
		"long put": func(t *testing.T, p place, _ string, h map[string]string) answered {
			return p.do(t, http.MethodPut, "/k", strings.Repeat("n", 2<<20), h, number(2))
		},
		"delete": func(t *testing.T, p place, _ string, h map[string]string) answered {
			return p.do(t, http.MethodDelete, "/k", "", h, number(2))
		},
		"deletes": func(t *testing.T, p place, _ string, h map[string]string) answered {
			h["Content-Md5"] = md5Of(all)
			a := p.do(t, http.MethodPost, "?delete", all, h, number(2))
			if a.status == http.StatusOK && strings.Contains(a.body, "<Key>free</Key></Deleted>") && strings.Contains(a.body, "<Error><Key>k</Key><Code>PreconditionFailed</Code>") {
				a.status, a.body = http.StatusPreconditionFailed, "<Error><Code>PreconditionFailed</Code></Error>"
			}
			return a
		},
		"tags": func(t *testing.T, p place, _ string, h map[string]string) answered {
			return p.do(t, http.MethodPut, "/k?tagging", "<Tagging><TagSet></TagSet></Tagging>", h, number(2))
		},
		"no tags": func(t *testing.T, p place, _ string, h map[string]string) answered {
			return p.do(t, http.MethodDelete, "/k?tagging", "", h, number(2))
		},
		"copy": func(t *testing.T, p place, _ string, h map[string]string) answered {
			return copies(t, p, p.bucket+"/from", "k", h, number(2))
		},
		"complete": func(t *testing.T, p place, id string, h map[string]string) answered {
			return p.do(t, http.MethodPost, "/k?uploadId="+id, completeBody(upload(t, p, "k", id, 1, "new", number(2))), h, number(2))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			p, old := s.proxy(t), s.proxy(t)
			old.put(t, "k", "A", number(1))
			p.put(t, "from", "B", number(2))
			id := create(t, p, "k", number(2))
			p.holds(t, "k", "A", number(2))
			old.put(t, "k", "late", number(1))
			attempt := func(id, n string) map[string]string {
				return map[string]string{"Amz-Sdk-Invocation-Id": id, "Amz-Sdk-Request": "attempt=" + n + "; max=3"}
			}
			send(t, p, id, attempt("one", "1")).expect(t, "first attempt, whose answer nobody gets", http.StatusPreconditionFailed, "PreconditionFailed")
			for _, n := range []string{"2", "3"} {
				send(t, p, id, attempt("one", n)).expect(t, "attempt "+n+" of the same request", http.StatusPreconditionFailed, "PreconditionFailed")
			}
			old.holds(t, "k", "late", number(2))
			if a := send(t, p, id, attempt("two", "1")); a.status/100 != 2 { // its program has been told
				t.Errorf("another request: %d %s", a.status, a.body)
			}
		})
	}
}

// The answer to a copy is lost, and its client repeats it at another proxy, which knows
// nothing of it: it is copied again, as at S3. The key has been closed to older tokens
// by the first, so no write of theirs is overwritten (I9); and a condition of the
// client's own is false by then.
func TestCopyRepeatedElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	older, newer, another := s.proxy(t), s.proxy(t), s.proxy(t)
	older.put(t, "k", "old", number(33))
	older.put(t, "conditional", "old", number(33))
	newer.put(t, "source", "new", number(34))
	head, err := newer.client(t, number(34)).StatObject(t.Context(), s.bucket, "conditional", minio.StatObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	header := func(attempt string, more ...string) map[string]string {
		h := map[string]string{"Amz-Sdk-Invocation-Id": "one", "Amz-Sdk-Request": attempt}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	copies(t, newer, s.bucket+"/source", "k", header("attempt=1"), number(34)).expect(t, "copy", http.StatusOK, "")
	older.do(t, http.MethodPut, "/k", "late", nil, number(33)).expect(t, "the older holder's", http.StatusPreconditionFailed, "FenceTokenStale")
	copies(t, another, s.bucket+"/source", "k", header("attempt=2"), number(34)).expect(t, "repeated elsewhere", http.StatusOK, "")
	another.holds(t, "k", "new", number(34))

	copies(t, newer, s.bucket+"/source", "conditional", header("attempt=1", "If-Match", head.ETag), number(34)).expect(t, "conditional", http.StatusOK, "")
	copies(t, another, s.bucket+"/source", "conditional", header("attempt=2", "If-Match", head.ETag), number(34)).
		expect(t, "conditional, repeated elsewhere", http.StatusPreconditionFailed, "PreconditionFailed")
	another.holds(t, "conditional", "new", number(34))
}
