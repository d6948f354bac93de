package httpguard_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard/httpguard"
)

// exchange is a request and its answer.
type exchange struct {
	name, method, path string // PUT / if not said
	header             []string
	status             int
	body               string
}

func TestAnswersByTheRule(t *testing.T) {
	t.Parallel()
	foreign, twin := token(36), token(34)
	foreign.Issuer, twin.Holder = "other", "twin"
	const atMark = `,"resource":"orders","mark":{"generation":0,"issuer":"k3v9","writer":"34","reader":"0"}}`
	exchanges(t, []exchange{
		{name: "current", header: []string{token(34).String()}, status: 204},
		{name: "newer", header: []string{token(35).String()}, status: 204},
		{name: "one of two", header: []string{otherToken().String() + "," + token(34).String()}, status: 204},
		{name: "reader", method: "GET", header: []string{shared(token(35)).String()}, status: 204},
		{name: "reader's HEAD", method: "HEAD", header: []string{shared(token(35)).String()}, status: 204},
		{name: "reader's OPTIONS", method: "OPTIONS", header: []string{shared(token(35)).String()}, status: 204},
		{
			name: "stale", header: []string{token(33).String()}, status: 412,
			body: `{"code":"FenceTokenStale","reason":"stale token"` + atMark,
		},
		{
			name: "stale reader", method: "GET", header: []string{shared(token(33)).String()}, status: 412,
			body: `{"code":"FenceTokenStale","reason":"stale token"` + atMark,
		},
		{
			name: "duplicate", header: []string{twin.String()}, status: 412,
			body: `{"code":"FenceTokenDuplicate","reason":"duplicate token"` + atMark,
		},
		{
			name: "foreign", header: []string{foreign.String()}, status: 412,
			body: `{"code":"FenceTokenForeign","reason":"token of a foreign issuer"` + atMark,
		},
	})
}

func TestAnswersBeforeTheRule(t *testing.T) {
	t.Parallel()
	exchanges(t, []exchange{
		{name: "no token", status: 403, body: `{"code":"FenceTokenMissing","reason":"no token"}`},
		{name: "no token, GET", method: "GET", status: 403, body: `{"code":"FenceTokenMissing","reason":"no token"}`},
		{name: "empty", header: []string{""}, status: 403, body: `{"code":"FenceTokenMissing","reason":"no token"}`},
		{
			name: "another resource's", header: []string{otherToken().String()}, status: 403,
			body: `{"code":"FenceTokenMissing","reason":"no token","resource":"orders"}`,
		},
		{
			name: "malformed", header: []string{"ft1:x:0:a:i:orders"}, status: 400,
			body: `{"code":"FenceTokenMalformed","reason":"malformed token: number is not a decimal above 0 without sign or leading zero","resource":"orders"}`,
		},
		{
			name: "twice", header: []string{token(34).String(), token(34).String()}, status: 400,
			body: `{"code":"FenceTokenMalformed","reason":"malformed token: Fence-Token is sent twice"}`,
		},
		{
			name: "one of two malformed", header: []string{token(34).String() + ",42"}, status: 400,
			body: `{"code":"FenceTokenMalformed","reason":"malformed token: text is not ft1:\u003cx|s\u003e:\u003cnumber\u003e:\u003cholder\u003e:\u003cissuer\u003e:\u003cresource\u003e"}`,
		},
		{
			name: "shared token writes", header: []string{shared(token(35)).String()}, status: 403,
			body: `{"code":"FenceTokenReadOnly","reason":"shared token cannot write","resource":"orders"}`,
		},
		{
			name: "stale shared token writes", method: "DELETE", header: []string{shared(token(33)).String()}, status: 403,
			body: `{"code":"FenceTokenReadOnly","reason":"shared token cannot write","resource":"orders"}`,
		},
		{
			name: "shared token and a method nobody knows", method: "REPORT", header: []string{shared(token(35)).String()}, status: 403,
			body: `{"code":"FenceTokenReadOnly","reason":"shared token cannot write","resource":"orders"}`,
		},
		{
			name: "resource unknown", path: "/error", header: []string{token(34).String()}, status: 501,
			body: `{"code":"FenceUnsupported","reason":"cannot be fenced"}`,
		},
		{
			name: "resource refused", path: "/error/readonly", header: []string{token(34).String()}, status: 403,
			body: `{"code":"FenceTokenReadOnly","reason":"shared token cannot write"}`,
		},
		{
			name: "resource without name", path: "/name/empty", header: []string{token(34).String()}, status: 501,
			body: `{"code":"FenceUnsupported","reason":"cannot be fenced"}`,
		},
		{
			name: "resource whose name is none", path: "/name/control", header: []string{token(34).String()}, status: 501,
			body: `{"code":"FenceUnsupported","reason":"cannot be fenced"}`,
		},
	})
}

func exchanges(t *testing.T, rows []exchange) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ran := false
			s := serve(t, claimed(t, token(34)), httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				ran = true
				w.WriteHeader(http.StatusNoContent)
			})
			method := row.method
			if method == "" {
				method = http.MethodPut
			}
			got := do(t, s, request(t, method, s.URL+row.path, row.header...))
			if got.StatusCode != row.status || strings.TrimSpace(got.body) != row.body {
				t.Errorf("got  %d %s\nwant %d %s", got.StatusCode, got.body, row.status, row.body)
			}
			if admitted := row.status == 204; ran != admitted {
				t.Errorf("handler ran: %v", ran)
			} else if !admitted {
				expectAnswer(t, got)
			}
		})
	}
}

func expectAnswer(t *testing.T, got reply) {
	t.Helper()
	if !json.Valid([]byte(got.body)) || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%q is %s", got.body, got.Header.Get("Content-Type"))
	}
	if got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a refusal may be cached: %v", got.Header)
	}
	for _, secret := range []string{"secret", "password", "10.0.0.7"} {
		if strings.Contains(got.body, secret) {
			t.Errorf("%s tells %q", got.body, secret)
		}
	}
}
