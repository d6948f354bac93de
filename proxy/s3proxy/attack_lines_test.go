package s3proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// chunked is text in chunks of HTTP, with a trailer.
func chunked(text, trailer string) string {
	var b strings.Builder
	for len(text) > 0 {
		n := min(len(text), 7)
		fmt.Fprintf(&b, "%x;a=b\r\n%s\r\n", n, text[:n])
		text = text[n:]
	}
	return b.String() + "0\r\n" + trailer + "\r\n"
}

// What stands behind a body is no header: no token counts that is sent there, none is
// taken away, and nothing of it is stored. Chunks in chunks are what is in both.
func TestAttackTrailers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(34)), e.bucket, "k", "kept")
	target := "/" + e.bucket + "/k"
	for _, announced := range []string{"", "Trailer: Fence-Token, X-Amz-Security-Token, X-Amz-Meta-A, Authorization\r\n"} {
		for _, c := range []struct {
			name   string
			header map[string]string
			behind int64
			status int
			code   string
		}{
			{"no token", nil, 34, 403, "FenceTokenMissing"},
			{"a stale one", carrying(t, token(33)), 34, 412, "FenceTokenStale"},
			{"a current one", carrying(t, token(34)), 35, 200, ""},
		} {
			value := fmt.Sprint(c.name, len(announced))
			header := with(c.header, map[string]string{"X-Amz-Decoded-Content-Length": fmt.Sprint(len(value)), "Content-Encoding": "aws-chunked"})
			r := request{http.MethodPut, target, "", header}.signHash(t, p.addr, appKey, appSecret, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
			trailer := fmt.Sprintf("fence-token: %s\r\nX-Amz-Security-Token: %[1]s\r\nx-amz-meta-a: b\r\nContent-Length: 7\r\nX-Amz-Copy-Source: %s/none\r\n", text(t, token(c.behind)), e.bucket)
			var b strings.Builder
			fmt.Fprintf(&b, "PUT %s HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n%s", target, p.addr, announced)
			_ = r.Header.Write(&b)
			b.WriteString("\r\n" + chunked(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(value), value), trailer))
			conn := p.dial(t)
			_, _ = io.WriteString(conn, b.String())
			if status, code := conn.answer(); status != c.status || code != c.code {
				t.Errorf("%s: %d %s", c.name, status, code)
			}
			if c.status == 200 {
				expectValue(t, p.app(t), e.bucket, "k", value)
				conn.head(p, http.MethodGet, target, 0, nil)
				if status, code := conn.answer(); status != 200 {
					t.Errorf("the next request: %d %s", status, code)
				}
			}
		}
	}
	stat, err := e.bare.StatObject(t.Context(), e.bucket, "k", minio.StatObjectOptions{})
	if err != nil || len(stat.UserMetadata) != 0 {
		t.Errorf("stored with %v, %v", stat.UserMetadata, err)
	}
	if _, err := tryPut(t, p.app(t, token(34)), e.bucket, "k", "by 34"); err != nil {
		t.Errorf("35 was claimed: %v", err)
	}
}

// Lines that one reads in one way and another in another make no token of what is none,
// and hide none.
func TestAttackLines(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(34)), e.bucket, "k", "kept")
	old, current := text(t, token(33)), text(t, token(34))
	signed := func(carrier, value string) string {
		return rawRequest(t, p, request{method: http.MethodPut, target: "/" + e.bucket + "/k", header: map[string]string{carrier: value}}, "Content-Length: 3\r\n")
	}
	session, header := signed("X-Amz-Security-Token", current), signed("Fence-Token", current)
	stale := signed("X-Amz-Security-Token", old)
	line, fence := "X-Amz-Security-Token: "+current, "Fence-Token: "+current
	behind := func(of, at, more string) string {
		if !strings.Contains(of, at+"\r\n") {
			t.Fatalf("%q is not in %q", at, of)
		}
		return strings.Replace(of, at+"\r\n", more, 1)
	}
	for name, c := range map[string]struct {
		text   string
		status int // 0: 4xx
	}{
		"folded in front":         {behind(session, line, "X-Amz-Security-Token:\r\n\t"+current+"\r\n"), 200},
		"folded inside":           {behind(session, line, "X-Amz-Security-Token: "+current[:8]+"\r\n "+current[8:]+"\r\n"), 0},
		"another folded to it":    {behind(session, line, line+"\r\n ,"+old+"\r\n"), 0},
		"sent twice":              {behind(session, line, line+"\r\n"+line+"\r\n"), 0},
		"twice in another case":   {behind(session, line, line+"\r\nx-amz-SECURITY-token: "+old+"\r\n"), 0},
		"another behind it":       {behind(header, fence, fence+"\r\nfence-token: "+old+"\r\n"), 0},
		"another before it":       {behind(header, fence, "fENCE-tOKEN: "+old+"\r\n"+fence+"\r\n"), 0},
		"a blank before colon":    {behind(session, line, line+"\r\nFence-Token : "+old+"\r\n"), 0},
		"a blank before the name": {behind(stale, "X-Amz-Security-Token: "+old, " X-Amz-Security-Token: "+current+"\r\nX-Amz-Security-Token: "+old+"\r\n"), 0},
		"underscores":             {behind(stale, "X-Amz-Security-Token: "+old, "X_Amz_Security_Token: "+current+"\r\nX-Amz-Security-Token: "+old+"\r\n"), 412},
		"a bare CR":               {behind(stale, "X-Amz-Security-Token: "+old, "A: b\rFence-Token: "+current+"\r\nX-Amz-Security-Token: "+old+"\r\n"), 0},
		"LF alone":                {strings.ReplaceAll(session, "\r\n", "\n"), 200},
		"a NUL":                   {behind(session, line, line+"\x00\r\n"), 0},
		"two lengths alike":       {strings.Replace(session, "Content-Length: 3\r\n", "Content-Length: 3\r\ncontent-length: 3\r\n", 1), 200},
		"two that are not":        {strings.Replace(session, "Content-Length: 3\r\n", "Content-Length: 3\r\ncontent-length: 0\r\n", 1), 0},
		"another host":            {strings.Replace(session, "Host: ", "Host: elsewhere\r\nHost: ", 1), 0},
		"absolute, another host":  {strings.Replace(session, "PUT /", "PUT http://elsewhere/", 1), 0},
		"absolute":                {strings.Replace(session, "PUT /", "PUT http://"+p.addr+"/", 1), 200},
		"a host that is a path":   {strings.Replace(session, "Host: ", "Host: x/", 1), 0},
	} {
		conn := p.dial(t)
		_, _ = io.WriteString(conn, c.text+"new")
		status, code := conn.answer()
		if c.status != 0 && status != c.status || c.status == 0 && status/100 != 4 {
			t.Errorf("%s: %d %s", name, status, code)
		}
		want := "kept"
		if status == 200 {
			want = "new"
		}
		expectValue(t, p.app(t), e.bucket, "k", want)
		put(t, p.app(t, token(34)), e.bucket, "k", "kept")
		conn.Close()
	}
}

// Two tokens in one packet, on one key: each write is judged when its turn comes, so a
// holder who comes behind a newer one on the same connection is refused (I1).
func TestAttackTwoInOnePacket(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	var b strings.Builder
	var want []int
	for i, number := range []int64{34, 33, 35, 34, 35, 33, 36, 35} {
		value := fmt.Sprint("by ", number, " ", i)
		expect, status := map[string]string{}, http.StatusPreconditionFailed
		if i%2 == 0 { // and sends its body all the same
			expect["Expect"], status = "100-continue", http.StatusOK
		}
		b.WriteString(rawRequest(t, p, request{method: http.MethodPut, target: "/" + e.bucket + "/k", header: carrying(t, token(number), expect)}, fmt.Sprintf("Content-Length: %d\r\n", len(value))) + value)
		want = append(want, status)
	}
	conn := p.dial(t)
	_, _ = io.WriteString(conn, b.String())
	for i, status := range want {
		res, err := http.ReadResponse(conn.in, nil)
		for err == nil && res.StatusCode == http.StatusContinue {
			res, err = http.ReadResponse(conn.in, nil)
		}
		if err != nil || res.StatusCode != status {
			t.Fatalf("answer %d: %+v, %v, want %d", i, res, err, status)
		}
		_, _ = io.Copy(io.Discard, res.Body)
	}
	expectValue(t, p.app(t), e.bucket, "k", "by 36 6")
}
