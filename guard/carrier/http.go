package carrier

import (
	"net/http"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Header is the HTTP header that carries a token.
const Header = "Fence-Token"

// SetHeader makes h carry tokens, in place of any that it carried. It refuses
// what guard.FormatList refuses.
func SetHeader(h http.Header, tokens ...guard.Token) error {
	text, err := guard.FormatList(tokens)
	if err != nil {
		return err
	}
	h.Set(Header, text)
	return nil
}

// HeaderTokens reads the tokens that h carries. The error matches
// guard.ErrNoToken when there are none; guard.ErrMalformed, also when the
// header was sent twice.
func HeaderTokens(h http.Header) ([]guard.Token, error) {
	values, err := once(h, Header)
	if err != nil {
		return nil, err
	}
	return read(values)
}

// StripHeader removes what SetHeader set.
func StripHeader(h http.Header) { h.Del(Header) }

// once returns the value of a header that may be sent once. Sent twice it is
// malformed even if both say the same: whoever merges or picks headers on the
// way would decide which token counts.
func once(h map[string][]string, name string) ([]value, error) {
	switch texts := h[name]; len(texts) {
	case 0:
		return nil, nil
	case 1:
		return []value{{place: name, text: texts[0]}}, nil
	}
	return nil, malformed("%s is sent twice", name)
}
