package statement

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// setConfig is the function that changes a setting.
const setConfig = "set_config"

// maxSettings is how many calls of it in one statement are looked at.
const maxSettings = 64

// configures reports whether a text may change the token, or that its transaction
// is read-only, by set_config. It does not if it names other settings, each as a
// literal: many clients set their search_path like that.
func configures(text string) bool {
	if contains(text, escapedName) {
		return true
	}
	s := search(text, setConfig)
	for range maxSettings {
		at := s.next()
		if at < 0 {
			return false
		}
		arguments := text[at+len(setConfig):]
		if !harmless(arguments[:min(len(arguments), maxArguments)]) {
			return true
		}
	}
	return true
}

// maxArguments is how far the arguments of such a call are read.
const maxArguments = 1 << 10

// harmless reports whether the arguments of a set_config begin with the name of
// another setting as a plain literal.
func harmless(arguments string) bool {
	scanner := sqltext.NewScanner(strings.TrimPrefix(arguments, `"`), sqltext.Dialect{})
	rest := strings.TrimPrefix(arguments, `"`)
	var literal sqltext.Token
	for i, kind := range []sqltext.Kind{sqltext.Symbol, sqltext.Literal, sqltext.Symbol} {
		t := scanner.Next()
		switch {
		case t.Kind != kind, i == 0 && rest[t.Start] != '(', i == 2 && rest[t.Start] != ',':
			return false
		case i == 1:
			literal = t
		}
	}
	name := rest[literal.Start:literal.Stop]
	const plainly = "'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."
	if name[0] != '\'' || strings.Trim(name, plainly) != "" {
		return false
	}
	name = strings.Trim(name, "'")
	return !strings.EqualFold(name, carrier.GUC) && !strings.EqualFold(name, thaw)
}

// How names and texts begin whose letters may be written as numbers.
const (
	escapedName = `u&"`
	escapedText = `u&'`
)

// setsToken reports whether a SET or RESET may be one of the token, or of the
// transaction's being read-only.
func setsToken(text string) bool {
	return namesToken(text) || contains(text, escapedName) || thawsNow(text)
}

// namesToken reports whether the parts of the name of the token's setting are in
// a text.
func namesToken(text string) bool {
	class, name, _ := strings.Cut(carrier.GUC, ".")
	return contains(text, class) && contains(text, name)
}

// thawsNow reports whether a text names thaw, and not the default for transactions
// to come.
func thawsNow(text string) bool {
	const before = "default_"
	s := search(text, thaw)
	for at := s.next(); at >= 0; at = s.next() {
		if start := at - len(before); start < 0 || !strings.EqualFold(text[start:at], before) {
			return true
		}
	}
	return false
}
