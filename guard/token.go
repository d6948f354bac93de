package guard

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mode says what a token's holder may do.
type Mode byte

const (
	// Exclusive is a writer's mode: one holder at a time, reads and writes.
	Exclusive Mode = 'x'
	// Shared is a reader's mode: many holders at a time, never a write.
	Shared Mode = 's'
)

// String returns the letter of the mode in the text form, "x" or "s".
func (m Mode) String() string { return string(rune(m)) }

const (
	// MaxResourceLen bounds a resource name, in bytes.
	MaxResourceLen = 255
	// MaxIDLen bounds a holder or an issuer, in bytes.
	MaxIDLen = 64
	// MaxTextLen bounds the text form of one token, in bytes: every byte of
	// the resource encoded, both ids and the number at their longest.
	MaxTextLen = len("ft1:x:") + 19 + 1 + MaxIDLen + 1 + MaxIDLen + 1 + 3*MaxResourceLen

	version = "ft1"
)

// Token is what a lock hands out with a grant and what a write presents
// (Chubby's "sequencer"). The zero Token is not valid.
type Token struct {
	// Resource is the name of what the lock protects: 1–255 bytes of UTF-8
	// without control characters.
	Resource string
	// Number orders the tokens of one resource and issuer; it is above 0 and
	// rises strictly from grant to grant.
	Number int64
	// Mode is Exclusive or Shared.
	Mode Mode
	// Holder is the random id of one acquisition, [A-Za-z0-9_-]{0,64}. An
	// empty holder equals only the empty one.
	Holder string
	// Issuer names the counter that the number comes from; same alphabet as
	// Holder. An empty issuer is an issuer like any other.
	Issuer string
}

// Validate reports whether every field of t keeps to the contract. The error
// matches ErrMalformed.
func (t Token) Validate() error {
	if reason := t.flaw(); reason != "" {
		return malformed(t, reason)
	}
	return nil
}

func (t Token) flaw() string {
	if flaw := resourceFlaw(t.Resource); flaw != "" {
		return flaw
	}
	switch {
	case t.Number <= 0:
		return "number is not above 0"
	case t.Mode != Exclusive && t.Mode != Shared:
		return "mode is neither x nor s"
	case !validID(t.Holder):
		return "holder is not [A-Za-z0-9_-]{0,64}"
	case !validID(t.Issuer):
		return "issuer is not [A-Za-z0-9_-]{0,64}"
	}
	return ""
}

// ValidateResource reports whether name may be the name of a resource. The
// error matches ErrMalformed.
func ValidateResource(name string) error {
	if flaw := resourceFlaw(name); flaw != "" {
		return malformed(Token{Resource: name}, flaw)
	}
	return nil
}

// ValidateID reports whether id may be a holder or an issuer; the empty id
// may. The error matches ErrMalformed.
func ValidateID(id string) error {
	if !validID(id) {
		return malformed(Token{}, "id is not [A-Za-z0-9_-]{0,64}")
	}
	return nil
}

func resourceFlaw(name string) string {
	switch {
	case name == "":
		return "resource is empty"
	case len(name) > MaxResourceLen:
		return "resource is longer than 255 bytes"
	case !utf8.ValidString(name):
		return "resource is not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "resource has a control character"
	}
	return ""
}

func validID(id string) bool {
	if len(id) > MaxIDLen {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !alnum(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func alnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// unreserved are the bytes of a resource that its text form never encodes.
func unreserved(c byte) bool {
	return alnum(c) || c == '.' || c == '_' || c == '~' || c == '/' || c == '-'
}

// String returns the text form of t, which Parse reads back:
//
//	ft1:<mode>:<number>:<holder>:<issuer>:<resource>
//
// Of an invalid token it returns a text that Parse refuses.
func (t Token) String() string { return string(t.append(make([]byte, 0, 64+len(t.Resource)))) }

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

func (t Token) append(b []byte) []byte {
	b = append(b, version...)
	b = append(b, ':', byte(t.Mode), ':')
	b = strconv.AppendInt(b, t.Number, 10)
	b = append(b, ':')
	b = append(b, t.Holder...)
	b = append(b, ':')
	b = append(b, t.Issuer...)
	b = append(b, ':')
	return appendEscaped(b, t.Resource)
}

const upperHex = "0123456789ABCDEF"

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

// Parse reads the text form of one token. There is exactly one text per
// token; whatever else it is given, it refuses with an error that matches
// ErrMalformed.
func Parse(text string) (Token, error) {
	t, flaw := parse(text)
	if flaw != "" {
		return Token{}, malformed(Token{}, flaw)
	}
	return t, nil
}

func parse(text string) (Token, string) {
	if len(text) > MaxTextLen {
		return Token{}, fmt.Sprintf("text is longer than %d bytes", MaxTextLen)
	}
	var field [6]string
	rest := text
	for i := range len(field) - 1 {
		var found bool
		if field[i], rest, found = strings.Cut(rest, ":"); !found {
			return Token{}, "text is not ft1:<mode>:<number>:<holder>:<issuer>:<resource>"
		}
	}
	field[5] = rest
	if field[0] != version {
		return Token{}, "text does not start with ft1:"
	}
	if field[1] != "x" && field[1] != "s" {
		return Token{}, "mode is neither x nor s"
	}
	number, flaw := parseNumber(field[2])
	if flaw != "" {
		return Token{}, flaw
	}
	resource, flaw := unescape(field[5])
	if flaw != "" {
		return Token{}, flaw
	}
	t := Token{Resource: resource, Number: number, Mode: Mode(field[1][0]), Holder: field[3], Issuer: field[4]}
	return t, t.flaw()
}

func parseNumber(s string) (int64, string) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, "number is not a decimal above 0 without sign or leading zero"
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strings.Contains(s, "_") {
		return 0, "number is not a decimal below 2^63"
	}
	return n, ""
}

// unescape decodes a resource. Upper-case hex only, and only of bytes that
// must be encoded: otherwise one token would have two texts.
func unescape(s string) (string, string) {
	if strings.IndexByte(s, '%') < 0 {
		for i := range len(s) {
			if !unreserved(s[i]) {
				return "", "resource has a byte that must be percent-encoded"
			}
		}
		return s, ""
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '%' {
			if !unreserved(c) {
				return "", "resource has a byte that must be percent-encoded"
			}
			out = append(out, c)
			continue
		}
		if i+2 >= len(s) {
			return "", "resource ends inside a percent-encoding"
		}
		hi, lo := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
		if hi < 0 || lo < 0 {
			return "", "percent-encoding is not two upper-case hex digits"
		}
		decoded := byte(hi<<4 | lo)
		if unreserved(decoded) {
			return "", "resource encodes a character that needs no encoding"
		}
		out = append(out, decoded)
		i += 2
	}
	return string(out), ""
}
