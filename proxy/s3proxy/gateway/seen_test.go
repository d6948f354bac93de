package gateway

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// Who was told that there is nothing has seen that: what an older holder's late write
// creates then is not overwritten in silence (I9).
func TestAbsenceIsSeen(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("n", smallBody+1)
	for name, write := range map[string]func(t *testing.T, p place) answered{
		"put": func(t *testing.T, p place) answered { return p.do(t, http.MethodPut, "/k", "new", nil, number(2)) },
		"put-large": func(t *testing.T, p place) answered {
			return p.do(t, http.MethodPut, "/k", large, nil, number(2))
		},
		"delete": func(t *testing.T, p place) answered { return p.do(t, http.MethodDelete, "/k", "", nil, number(2)) },
		"copy":   func(t *testing.T, p place) answered { return copies(t, p, p.bucket+"/source", "k", nil, number(2)) },
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			t.Run(name+" behind "+method, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				p, old := s.proxy(t), s.proxy(t)
				old.put(t, "source", "s", number(1))
				if a := p.do(t, method, "/k", "", nil, number(2)); a.status != http.StatusNotFound {
					t.Fatal(a.status, a.body)
				}
				old.put(t, "k", "late", number(1)) // the key is not closed yet
				write(t, p).expect(t, "blind", http.StatusPreconditionFailed, "PreconditionFailed")
				p.holds(t, "k", "late", number(2))
				if a := write(t, p); a.status/100 != 2 {
					t.Errorf("after it was read: %d %s", a.status, a.body)
				}
			})
		}
	}
}

// A write that the store did not carry out takes nothing from what its holder has seen:
// what an SDK sends again by itself is told of an older write in between (I9).
func TestRepeatedBehindABusyStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		code   string
		looks  int // that fail as well
	}{
		"busy":    {http.StatusServiceUnavailable, "SlowDown", 4},
		"refused": {http.StatusBadRequest, "RequestTimeout", 0}, // which SDKs repeat
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			p, old := s.proxy(t), s.proxy(t)
			old.put(t, "k", "A", number(1))
			p.holds(t, "k", "A", number(2))
			of := func(op string) func(s3link.Request) bool {
				return func(r s3link.Request) bool { return r.Op == op && r.Key == "k" }
			}
			s.link.Answer(of(s3link.PutObject), 1, c.status, c.code)
			for n := range c.looks {
				s.link.Answer(of(s3link.GetObject), n+1, c.status, c.code)
			}
			attempt := map[string]string{"Amz-Sdk-Invocation-Id": "one", "Amz-Sdk-Request": "attempt=1; max=3"}
			if a := p.do(t, http.MethodPut, "/k", "A+1", attempt, number(2)); a.status/100 == 2 {
				t.Fatal(a.status, a.body)
			}
			old.put(t, "k", "late", number(1))
			attempt["Amz-Sdk-Request"] = "attempt=2; max=3"
			p.do(t, http.MethodPut, "/k", "A+1", attempt, number(2)).expect(t, "second attempt", http.StatusPreconditionFailed, "PreconditionFailed")
		})
	}
}

// A write whose own condition is false is told nothing of what an older holder's late
// write has put there (I9).
func TestFalseConditionsTellNothing(t *testing.T) {
	t.Parallel()
	another := func(method, path, body string, header map[string]string) func(*testing.T, place) answered {
		return func(t *testing.T, p place) answered { return p.do(t, method, path, body, header, number(2)) }
	}
	for name, between := range map[string]func(*testing.T, place) answered{
		"put":          another(http.MethodPut, "/k", "x", map[string]string{"If-Match": `"another"`}),
		"put of none":  another(http.MethodPut, "/k", "x", map[string]string{"If-None-Match": "*"}),
		"put, waiting": another(http.MethodPut, "/k", "x", map[string]string{"If-Match": `"another"`, "Expect": "100-continue"}),
		"delete":       another(http.MethodDelete, "/k", "", map[string]string{"If-Match": `"another"`}),
		"copy": func(t *testing.T, p place) answered {
			p.put(t, "source", "x", number(2))
			return copies(t, p, p.bucket+"/source", "k", map[string]string{"If-Match": `"another"`}, number(2))
		},
		"completion": func(t *testing.T, p place) answered {
			id := create(t, p, "k", number(2))
			part, err := p.client(t, number(2)).PutObjectPart(t.Context(), p.bucket, "k", id, 1, strings.NewReader("x"), 1, minio.PutObjectPartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			body := `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>` + part.ETag + `</ETag></Part></CompleteMultipartUpload>`
			return p.do(t, http.MethodPost, "/k?uploadId="+url.QueryEscape(id), body, map[string]string{"If-Match": `"another"`}, number(2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := behindLateWrite(t)
			between(t, p).expect(t, "condition", http.StatusPreconditionFailed, "PreconditionFailed")
			p.do(t, http.MethodPut, "/k", "A+1", nil, number(2)).expect(t, "blind", http.StatusPreconditionFailed, "PreconditionFailed")
		})
	}
	t.Run("many deletes", func(t *testing.T) {
		t.Parallel()
		p := behindLateWrite(t)
		body := `<Delete><Object><Key>k</Key><ETag>"another"</ETag></Object></Delete>`
		p.do(t, http.MethodPost, "/?delete", body, map[string]string{"Content-Md5": md5Of(body)}, number(2)).expect(t, "deletes", http.StatusOK, "")
		p.do(t, http.MethodPut, "/k", "A+1", nil, number(2)).expect(t, "blind", http.StatusPreconditionFailed, "PreconditionFailed")
	})
}

// That an older write came first is told though the body broke off as well, for it is
// told once; and so are further attempts, whose bodies are whole (I9).
func TestBrokenBodyBehindAnOlderWrite(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]map[string]string{"alone": nil, "an SDK's attempt": {"Amz-Sdk-Invocation-Id": "one"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			p, old := s.proxy(t), s.proxy(t)
			old.put(t, "k", "A", number(1))
			p.holds(t, "k", "A", number(2))
			s.link.Forget()
			body := strings.Repeat("x", 4<<20)
			c := p.half(t, "/k", body, len(body)-1<<20, header, number(2))
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for deadline := time.Now().Add(30 * time.Second); s.link.Count(s3link.PutObject) == 0; <-tick.C { // until it is on its way
				if time.Now().After(deadline) {
					t.Fatal("it is not sent on", s.link.Ops())
				}
			}
			old.put(t, "k", "late", number(1))
			_ = c.CloseWrite()
			answer, err := io.ReadAll(c)
			if !strings.HasPrefix(string(answer), "HTTP/1.1 412 ") || !strings.Contains(string(answer), "<Code>PreconditionFailed</Code>") {
				t.Errorf("%q, %v", answer, err)
			}
			a := p.do(t, http.MethodPut, "/k", body, header, number(2))
			if header == nil {
				a.expect(t, "when it has been told", http.StatusOK, "")
			} else {
				a.expect(t, "another attempt", http.StatusPreconditionFailed, "PreconditionFailed")
			}
		})
	}
}

// half sends a PUT and no more than so many bytes of its body.
func (p place) half(t *testing.T, path, body string, sent int, header map[string]string, tokens ...guard.Token) *net.TCPConn {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+p.host+"/"+p.bucket+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Content-Sha256", hexOf(body))
	for name, value := range header {
		req.Header.Set(name, value)
	}
	req = signer.SignV4(*req, p.access, p.secret, listOf(t, tokens), p.region)
	var text strings.Builder
	if err := req.Write(&text); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text.String()[:text.Len()-len(body)+sent]); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}
