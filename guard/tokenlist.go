package guard

import "strings"

// ParseList reads the text form of several tokens, joined by commas: one per
// resource. It refuses an empty text, and two tokens for one resource, with
// an error that matches ErrMalformed.
func ParseList(text string) ([]Token, error) {
	var tokens []Token
	for part := range strings.SplitSeq(text, ",") {
		t, err := Parse(part)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 1 { // which Parse has found valid
		return tokens, nil
	}
	if err := ValidateList(tokens); err != nil {
		return nil, err
	}
	return tokens, nil
}

// FormatList returns the text form of several tokens, which ParseList reads
// back. It refuses what ValidateList refuses.
func FormatList(tokens []Token) (string, error) {
	if err := ValidateList(tokens); err != nil {
		return "", err
	}
	var b []byte
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = t.append(b)
	}
	return string(b), nil
}

// TokenFor returns the one of tokens that is for resource. The error matches
// ErrNoToken when there is none.
func TokenFor(tokens []Token, resource string) (Token, error) {
	for _, t := range tokens {
		if t.Resource == resource {
			return t, nil
		}
	}
	return Token{}, &RefusedError{Reason: ErrNoToken, Token: Token{Resource: resource}}
}

// ValidateList reports whether tokens may travel in one write: at least one,
// each valid, one per resource. The error matches ErrMalformed, or ErrNoToken
// when there is none.
func ValidateList(tokens []Token) error {
	if len(tokens) == 0 {
		return &RefusedError{Reason: ErrNoToken}
	}
	seen := make(map[string]struct{}, len(tokens))
	for _, t := range tokens {
		if err := t.Validate(); err != nil {
			return err
		}
		if _, twice := seen[t.Resource]; twice {
			return malformed(t, "two tokens for one resource")
		}
		seen[t.Resource] = struct{}{}
	}
	return nil
}
