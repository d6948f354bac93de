package guard

import (
	"strconv"
	"strings"
)

const (
	// MaxTextLen bounds the text form of one token, in bytes: every byte of
	// the resource encoded, both ids and the number at their longest.
	MaxTextLen = len("ft1:x:") + 19 + 1 + MaxIDLen + 1 + MaxIDLen + 1 + 3*MaxResourceLen

	version  = "ft1"
	upperHex = "0123456789ABCDEF"
)

// String returns the text form of t, which Parse reads back:
//
//	ft1:<x|s>:<number>:<holder>:<issuer>:<resource>
//
// Of an invalid token it returns a text that Parse refuses.
func (t Token) String() string {
	return string(t.append(make([]byte, 0, len("ft1:x:::")+19+len(t.Holder)+len(t.Issuer)+2*len(t.Resource))))
}

// AppendText appends the text form of t to b. It refuses an invalid token
// with an error that matches ErrMalformed.
func (t Token) AppendText(b []byte) ([]byte, error) {
	if err := t.Validate(); err != nil {
		return b, err
	}
	return t.append(b), nil
}

// MarshalText is AppendText for encoding.TextMarshaler.
func (t Token) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// UnmarshalText is Parse for encoding.TextUnmarshaler.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

func (t *Token) append(b []byte) []byte {
	b = append(b, version+":"...)
	b = append(b, t.Mode.String()...)
	b = append(b, ':')
	b = strconv.AppendInt(b, t.Number, 10)
	b = append(b, ':')
	b = append(b, t.Holder...)
	b = append(b, ':')
	b = append(b, t.Issuer...)
	b = append(b, ':')
	return appendEscaped(b, t.Resource)
}

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; unreserved(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

// unreserved are the bytes of a resource that its text form never encodes.
func unreserved(c byte) bool {
	return alnum(c) || c == '.' || c == '_' || c == '~' || c == '/' || c == '-'
}

// Parse reads the text form of one token. There is exactly one text per
// token; whatever else it is given, it refuses with an error that matches
// ErrMalformed.
func Parse(text string) (Token, error) {
	t, flaw := parse(text)
	if flaw != "" {
		return Token{}, malformed(t, flaw)
	}
	return t, nil
}

// parse returns what is wrong with text, and the token as far as it was read.
func parse(text string) (t Token, flaw string) {
	if len(text) > MaxTextLen {
		return t, "text is longer than " + strconv.Itoa(MaxTextLen) + " bytes"
	}
	var field [6]string
	for i := range len(field) - 1 {
		var found bool
		if field[i], text, found = strings.Cut(text, ":"); !found {
			return t, "text is not ft1:<x|s>:<number>:<holder>:<issuer>:<resource>"
		}
	}
	field[5] = text
	if field[0] != version {
		return t, "text does not start with ft1:"
	}
	if len(field[1]) != 1 || !Mode(field[1][0]).valid() {
		return t, "mode is neither x nor s"
	}
	t.Mode, t.Holder, t.Issuer = Mode(field[1][0]), field[3], field[4]
	if t.Resource, flaw = unescape(field[5]); flaw != "" {
		return t, flaw
	}
	if t.Number, flaw = parseNumber(field[2]); flaw != "" {
		return t, flaw
	}
	return t, t.flaw()
}

func parseNumber(s string) (int64, string) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, "number is not a decimal above 0 without sign or leading zero"
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, "number is not a decimal below 2^63"
	}
	return n, ""
}

// unescape decodes a resource. Upper-case hex only, and only of bytes that
// must be encoded: otherwise one token would have two texts.
func unescape(s string) (resource, flaw string) {
	plain := 0
	for plain < len(s) && unreserved(s[plain]) {
		plain++
	}
	if plain == len(s) {
		return s, ""
	}
	out := append(make([]byte, 0, len(s)), s[:plain]...)
	for i := plain; i < len(s); i++ {
		c := s[i]
		if unreserved(c) {
			out = append(out, c)
			continue
		}
		if c != '%' {
			return "", "resource has a byte that must be percent-encoded"
		}
		if i+2 >= len(s) {
			return "", "resource ends inside a percent-encoding"
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi > 15 || lo > 15 {
			return "", "percent-encoding is not two upper-case hex digits"
		}
		decoded := hi<<4 | lo
		if unreserved(decoded) {
			return "", "resource encodes a character that needs no encoding"
		}
		out = append(out, decoded)
		i += 2
	}
	return string(out), ""
}

// unhex returns the value of an upper-case hex digit, and more than 15 for any
// other byte.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
