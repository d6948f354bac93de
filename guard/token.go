package guard

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mode says what a token's holder may do.
type Mode byte

const (
	// Exclusive is a writer's mode: one holder at a time, who reads and writes.
	Exclusive Mode = 'x'
	// Shared is a reader's mode: many holders at a time, never a write.
	Shared Mode = 's'
)

// String returns the letter of the mode in the text form, "x" or "s", and "?"
// for what is not a mode.
func (m Mode) String() string {
	if !m.valid() {
		return "?"
	}
	return string(rune(m))
}

func (m Mode) valid() bool { return m == Exclusive || m == Shared }

const (
	// MaxResourceLen bounds a resource name, in bytes.
	MaxResourceLen = 255
	// MaxIDLen bounds a holder or an issuer, in bytes.
	MaxIDLen = 64
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
	if flaw := t.flaw(); flaw != "" {
		return malformed(t, flaw)
	}
	return nil
}

// MayWrite refuses a shared token, with an error that matches ErrReadOnly.
// Admit admits readers; whoever guards a write asks this as well.
func (t Token) MayWrite() error {
	if t.Mode == Shared {
		return &RefusedError{Reason: ErrReadOnly, Token: t}
	}
	return nil
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

// flaw says how t breaks the contract, "" if it does not.
func (t *Token) flaw() string {
	if flaw := resourceFlaw(t.Resource); flaw != "" {
		return flaw
	}
	switch {
	case t.Number <= 0:
		return "number is not above 0"
	case !t.Mode.valid():
		return "mode is neither x nor s"
	case !validID(t.Holder):
		return "holder is not [A-Za-z0-9_-]{0,64}"
	case !validID(t.Issuer):
		return "issuer is not [A-Za-z0-9_-]{0,64}"
	}
	return ""
}

func resourceFlaw(name string) string {
	switch {
	case name == "":
		return "resource is empty"
	case len(name) > MaxResourceLen:
		return "resource is longer than 255 bytes"
	case printableASCII(name):
		return ""
	case !utf8.ValidString(name):
		return "resource is not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "resource has a control character"
	}
	return ""
}

// printableASCII is the short way past two slower looks at a name. c-0x20 has
// its top bit set below 0x20 and from 0xa0, c+1 from 0x7f to 0xfe.
func printableASCII(s string) bool {
	var bits byte
	for i := range len(s) {
		c := s[i]
		bits |= (c - 0x20) | (c + 1)
	}
	return bits < 0x80
}

// isID holds 1 for each byte that may stand in a holder or an issuer.
//
//nolint:gochecknoglobals // a constant; Go has none that are arrays
var isID = func() (table [256]byte) {
	for c := range table {
		if b := byte(c); alnum(b) || b == '_' || b == '-' {
			table[c] = 1
		}
	}
	return table
}()

// validID runs within the 20 ns that Admit has: no branch on a byte, four
// bytes a turn.
func validID(id string) bool {
	if len(id) > MaxIDLen {
		return false
	}
	all := byte(1)
	for ; len(id) >= 4; id = id[4:] {
		all &= isID[id[0]] & isID[id[1]] & isID[id[2]] & isID[id[3]]
	}
	for i := range len(id) {
		all &= isID[id[i]]
	}
	return all == 1
}

func alnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
