package serveconfig

import (
	"fmt"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts the values of variables into text: ${NAME} is the variable's
// value, $${ is ${, and any other $ stands for itself. What a variable holds is
// not looked at again.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		if at > 0 && text[at-1] == '$' {
			b.WriteString(text[:at-1] + "${")
			text = text[at+2:]
			continue
		}
		name, rest, closed := strings.Cut(text[at+2:], "}")
		switch {
		case !closed:
			return "", fmt.Errorf("${%s has no } ($${ stands for ${)", name)
		case !variable.MatchString(name):
			return "", fmt.Errorf("${%s} is not the name of a variable ($${ stands for ${)", name)
		}
		value, set := lookup(name)
		if !set {
			return "", unsetError(name)
		}
		b.WriteString(text[:at] + value)
		text = rest
	}
}

// unsetError is the name of a variable that the environment lacks.
type unsetError string

func (e unsetError) Error() string { return "the environment has no variable " + string(e) }
