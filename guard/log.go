package guard

import (
	"log/slog" //nolint:depguard // for what a log would show: nothing is logged here
	"strconv"
)

// LogValue is the token as a log shows it: without its holder, since whoever knows
// that of the current one can pose as it.
func (t Token) LogValue() slog.Value {
	b := append([]byte("mode="), t.Mode.String()...)
	b = strconv.AppendInt(append(b, " number="...), t.Number, 10)
	return slog.StringValue(string(append(append(b, " issuer="...), t.Issuer...)))
}

// LogValue is the mark as a log shows it: without its holder, as a token.
func (m Mark) LogValue() slog.Value {
	b := strconv.AppendUint([]byte("generation="), uint64(m.Generation), 10)
	b = strconv.AppendInt(append(b, " writer="...), m.Writer, 10)
	b = strconv.AppendInt(append(b, " reader="...), m.Reader, 10)
	return slog.StringValue(string(append(append(b, " issuer="...), m.Issuer...)))
}
