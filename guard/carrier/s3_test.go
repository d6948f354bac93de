package carrier_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

func allSigned(string) bool { return true }

func TestS3(t *testing.T) {
	t.Parallel()
	h := http.Header{"Fence-Token": {newerText}, "Content-Type": {"text/plain"}}
	if err := carrier.SetS3(h, orders, stock); err != nil {
		t.Fatal(err)
	}
	if h.Get("x-amz-security-token") != bothText || len(h) != 2 {
		t.Errorf("set: %v", h)
	}
	tokens, err := carrier.S3Tokens(h, nil, allSigned)
	expect(t, "what was set", tokens, err, nil, orders, stock)

	query := url.Values{"X-Amz-Security-Token": {ordersText}, "partNumber": {"1"}}
	h.Set("Fence-Token", bothText)
	h.Set("x-amz-meta-fence-token", bothText)
	carrier.StripS3(h, query)
	if len(h) != 1 || len(query) != 1 {
		t.Errorf("stripped: %v %v", h, query)
	}
	if err := carrier.SetS3(h, guard.Token{}); err == nil || len(h) != 1 {
		t.Errorf("a malformed token was set: %v, %v", h, err)
	}
}

func TestS3Tokens(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		header map[string]string // header texts by lower-case name, parted by |
		query  []string
		signed string
		reason error
	}{
		{name: "nothing", reason: guard.ErrNoToken},
		{name: "session token", header: map[string]string{"x-amz-security-token": ordersText}},
		{name: "presigned", query: []string{ordersText}},
		{name: "header", header: map[string]string{"fence-token": ordersText}},
		{name: "metadata", header: map[string]string{"x-amz-meta-fence-token": ordersText}},
		{
			name: "all of them agree", query: []string{ordersText},
			header: map[string]string{
				"fence-token": ordersText, "x-amz-security-token": ordersText, "x-amz-meta-fence-token": ordersText,
			},
		},
		{
			name: "header and session token disagree", reason: guard.ErrMalformed,
			header: map[string]string{"fence-token": ordersText, "x-amz-security-token": newerText},
		},
		{
			name: "metadata and session token disagree", reason: guard.ErrMalformed,
			header: map[string]string{"x-amz-meta-fence-token": newerText, "x-amz-security-token": ordersText},
		},
		{
			name: "header and query disagree", reason: guard.ErrMalformed,
			header: map[string]string{"fence-token": ordersText}, query: []string{newerText},
		},
		{
			name: "session token of AWS beside a token", reason: guard.ErrMalformed,
			header: map[string]string{"fence-token": ordersText, "x-amz-security-token": "IQoJb3JpZ2luX2VjE"},
		},
		{
			name: "session token of AWS alone", reason: guard.ErrMalformed,
			header: map[string]string{"x-amz-security-token": "IQoJb3JpZ2luX2VjE"},
		},
		{name: "header twice", reason: guard.ErrMalformed, header: map[string]string{"fence-token": ordersText + "|" + ordersText}},
		{name: "metadata twice", reason: guard.ErrMalformed, header: map[string]string{"x-amz-meta-fence-token": ordersText + "|" + ordersText}},
		{name: "session token twice", reason: guard.ErrMalformed, header: map[string]string{"x-amz-security-token": ordersText + "|" + ordersText}},
		{name: "query twice", reason: guard.ErrMalformed, query: []string{ordersText, ordersText}},
		{name: "header not signed", signed: "host", reason: guard.ErrMalformed, header: map[string]string{"fence-token": ordersText}},
		{name: "metadata not signed", signed: "host", reason: guard.ErrMalformed, header: map[string]string{"x-amz-meta-fence-token": ordersText}},
		{name: "session token not signed", signed: "host", reason: guard.ErrMalformed, header: map[string]string{"x-amz-security-token": ordersText}},
		{
			name: "one of two not signed", signed: "x-amz-security-token", reason: guard.ErrMalformed,
			header: map[string]string{"fence-token": ordersText, "x-amz-security-token": ordersText},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for name, texts := range row.header {
				for text := range strings.SplitSeq(texts, "|") {
					h.Add(name, text)
				}
			}
			query := url.Values{}
			for _, text := range row.query {
				query.Add(carrier.S3SessionToken, text)
			}
			signed := func(name string) bool { return row.signed == "" || name == row.signed }
			tokens, err := carrier.S3Tokens(h, query, signed)
			expect(t, row.name, tokens, err, row.reason, orders)
		})
	}
}

// once looks headers up by the name that net/http gives them.
func TestNamesAreCanonical(t *testing.T) {
	t.Parallel()
	for _, name := range []string{carrier.Header, carrier.S3SessionToken, carrier.S3Metadata} {
		if http.CanonicalHeaderKey(name) != name {
			t.Errorf("%q is not canonical", name)
		}
	}
}
