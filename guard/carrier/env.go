package carrier

import (
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Env is the environment variable that carries a token.
const Env = "FENCE_TOKEN"

// SetEnv returns environ ("name=value" each, as os.Environ gives it) such that
// a process started with it carries tokens, in FENCE_TOKEN, and so do the
// clients in it that have never heard of tokens: those of Postgres by
// PGOPTIONS, which keeps what it says, and those of S3 by AWS_SESSION_TOKEN,
// whose value is replaced. It refuses what guard.FormatList refuses.
func SetEnv(environ []string, tokens ...guard.Token) ([]string, error) {
	text, err := guard.FormatList(tokens)
	if err != nil {
		return nil, err
	}
	options := ""
	if given := lookup(environ, EnvPGOptions); len(given) > 0 {
		options = given[len(given)-1].text // the one that a child would see
	}
	if options, err = SetOptions(options, tokens...); err != nil {
		return nil, err
	}
	out := without(environ, func(name, _ string) bool {
		return name == Env || name == EnvPGOptions || name == EnvAWSSessionToken
	})
	return append(out, Env+"="+text, EnvPGOptions+"="+options, EnvAWSSessionToken+"="+text), nil
}

// EnvTokens reads the tokens that FENCE_TOKEN carries in environ. The error
// matches guard.ErrNoToken when it is empty or not there, and
// guard.ErrMalformed.
func EnvTokens(environ []string) ([]guard.Token, error) {
	return read(lookup(environ, Env))
}

// StripEnv returns environ without what SetEnv put there.
func StripEnv(environ []string) []string {
	out := without(environ, func(name, text string) bool {
		return name == Env || name == EnvAWSSessionToken && isOurs(text)
	})
	for i, variable := range out {
		if options, found := strings.CutPrefix(variable, EnvPGOptions+"="); found {
			out[i] = EnvPGOptions + "=" + StripOptions(options)
		}
	}
	return slices.DeleteFunc(out, func(variable string) bool { return variable == EnvPGOptions+"=" })
}

func lookup(environ []string, name string) []value {
	var values []value
	for _, variable := range environ {
		if text, found := strings.CutPrefix(variable, name+"="); found {
			values = append(values, value{place: name, text: text})
		}
	}
	return values
}

// without returns a copy of environ without the variables that match.
func without(environ []string, match func(name, text string) bool) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, text, _ := strings.Cut(variable, "=")
		return match(name, text)
	})
}
