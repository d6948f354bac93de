package carrier

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

const (
	// EnvAWSSessionToken is the environment variable from which every AWS SDK
	// takes a session token, which it then sends with every request, signed.
	EnvAWSSessionToken = "AWS_SESSION_TOKEN"
	// S3SessionToken is where that session token is sent: a header, or a query
	// parameter of a presigned request.
	S3SessionToken = "X-Amz-Security-Token"
	// S3Metadata is the metadata of a write that carries a token.
	S3Metadata = "X-Amz-Meta-Fence-Token"
)

// SetS3 makes the header of an S3 request that is yet to be signed carry
// tokens, in place of any that it carried, as an SDK does that was given them
// for a session token. It refuses what guard.FormatList refuses.
func SetS3(h http.Header, tokens ...guard.Token) error {
	text, err := guard.FormatList(tokens)
	if err != nil {
		return err
	}
	StripS3(h, nil)
	h.Set(S3SessionToken, text)
	return nil
}

// S3Tokens reads the tokens that an S3 request carries, in its headers or its
// query. Signed tells whether the request's signature covers a header, whose
// name it is given in lower case; a signature covers the whole query. The
// error matches guard.ErrNoToken when there are none; guard.ErrMalformed, also
// when a place was given twice, two places disagree, or a header is not signed.
func S3Tokens(h http.Header, query url.Values, signed func(header string) bool) ([]guard.Token, error) {
	var values []value
	for _, name := range []string{Header, S3SessionToken, S3Metadata} {
		found, err := once(h, name)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && !signed(strings.ToLower(name)) {
			return nil, malformed("%s is not signed", name)
		}
		values = append(values, found...)
	}
	found, err := once(query, S3SessionToken)
	if err != nil {
		return nil, err
	}
	for _, v := range found {
		values = append(values, value{place: v.place + " in the query", text: v.text})
	}
	return read(values)
}

// StripS3 removes from an S3 request whatever S3Tokens reads. Query may be nil.
func StripS3(h http.Header, query url.Values) {
	for _, name := range []string{Header, S3SessionToken, S3Metadata} {
		h.Del(name)
	}
	query.Del(S3SessionToken)
}

// isOurs tells a token, or what was meant to be one, from a session token that
// AWS issued.
func isOurs(text string) bool { return strings.HasPrefix(text, "ft1:") }
