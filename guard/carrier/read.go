package carrier

import (
	"fmt"

	"github.com/fenceproxy/fenceproxy/guard"
)

// value is what was found at one place that can carry a token.
type value struct {
	place string
	text  string
}

// read reads the tokens of one request: every place that holds something must
// hold the same. An empty text is none.
func read(values []value) ([]guard.Token, error) {
	var first value
	for _, v := range values {
		switch {
		case v.text == "" || v.text == first.text:
		case first.text == "":
			first = v
		case v.place == first.place:
			return nil, malformed("%s is given twice", v.place)
		default:
			return nil, malformed("%s and %s disagree", first.place, v.place)
		}
	}
	if first.text == "" {
		return nil, &guard.RefusedError{Reason: guard.ErrNoToken}
	}
	tokens, err := guard.ParseList(first.text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", first.place, err)
	}
	return tokens, nil
}

func malformed(format string, args ...any) error {
	return &guard.RefusedError{Reason: fmt.Errorf("%w: %s", guard.ErrMalformed, fmt.Sprintf(format, args...))}
}
