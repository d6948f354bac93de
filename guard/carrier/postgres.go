package carrier

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

const (
	// GUC is the Postgres setting that carries a token. It can be set in the
	// startup packet's options, by SET, or by SET LOCAL.
	GUC = "fence.token"
	// EnvPGOptions is the environment variable from which clients of Postgres
	// take the options that they send at startup.
	EnvPGOptions = "PGOPTIONS"
)

// SetOptions returns options (the value of PGOPTIONS, of a connection string's
// options, or of the startup packet's) such that the session starts with
// tokens as its setting, in place of any that options set. Whatever else
// options say stays. It refuses what guard.FormatList refuses.
func SetOptions(options string, tokens ...guard.Token) (string, error) {
	text, err := guard.FormatList(tokens)
	if err != nil {
		return "", err
	}
	options = StripOptions(options)
	if options != "" {
		options += " "
	}
	return options + "-c " + GUC + "=" + text, nil
}

// OptionsTokens reads the tokens that options set. The error matches
// guard.ErrNoToken when there are none; guard.ErrMalformed, also when they set
// the token twice to different values, of which Postgres would take the last.
func OptionsTokens(options string) ([]guard.Token, error) {
	var values []value
	_ = withoutSwitch(splitOptions(options), func(setting, text string) bool {
		if isGUC(setting) {
			values = append(values, value{place: GUC + " in the options", text: text})
		}
		return false
	})
	return read(values)
}

// StripOptions returns options without what SetOptions added, however it is
// spelt there. Options that set no token come back as they are, but for a
// backslash at the end that escapes nothing and would escape what is appended.
func StripOptions(options string) string {
	found := false
	args := withoutSwitch(splitOptions(options), func(setting, _ string) bool {
		found = found || isGUC(setting)
		return isGUC(setting)
	})
	if found {
		return joinOptions(args)
	}
	trimmed := strings.TrimRight(options, `\`)
	if (len(options)-len(trimmed))%2 == 1 {
		return options[:len(options)-1]
	}
	return options
}

// GUCTokens reads the tokens in a value of the setting. Postgres shows a
// setting that was never set, or set to nothing, as empty: no token.
func GUCTokens(setting string) ([]guard.Token, error) {
	return read([]value{{place: GUC, text: setting}})
}

// SetStatement returns the SQL that makes tokens the setting of the session.
// It refuses what guard.FormatList refuses.
func SetStatement(tokens ...guard.Token) (string, error) { return setStatement("SET ", tokens) }

// SetLocalStatement returns the SQL that makes tokens the setting up to the end
// of the transaction. It refuses what guard.FormatList refuses.
func SetLocalStatement(tokens ...guard.Token) (string, error) {
	return setStatement("SET LOCAL ", tokens)
}

// setStatement needs no escaping: no character of a text form does.
func setStatement(verb string, tokens []guard.Token) (string, error) {
	text, err := guard.FormatList(tokens)
	if err != nil {
		return "", err
	}
	return verb + GUC + " = '" + text + "'", nil
}

// isGUC compares as Postgres does (guc_name_compare).
func isGUC(setting string) bool { return strings.EqualFold(setting, GUC) }
