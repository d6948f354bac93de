package s3xml

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	namespace   = "http://s3.amazonaws.com/doc/2006-03-01/"
	timeFormat  = "2006-01-02T15:04:05.000Z"
)

// Declaration is what an answer begins with. A body that is kept alive with
// blanks until it is known sends it first, and then Document without it.
const Declaration = declaration

// Document is a whole answer, without the declaration.
type Document interface{ appendTo(b builder) builder }

// Append appends d to b, without the declaration.
func Append(b []byte, d Document) []byte { return d.appendTo(b) }

// Encode returns d with the declaration.
func Encode(d Document) []byte { return Append([]byte(declaration), d) }

// builder is XML that grows.
type builder []byte

func (b builder) open(name string) builder { return append(append(append(b, '<'), name...), '>') }

func (b builder) root(name string) builder {
	return append(append(append(append(append(b, '<'), name...), ` xmlns="`...), namespace...), `">`...)
}

func (b builder) close(name string) builder {
	return append(append(append(b, '<', '/'), name...), '>')
}

func (b builder) text(name, value string) builder {
	return b.open(name).escape(value).close(name)
}

// some is text if there is any.
func (b builder) some(name, value string) builder {
	if value == "" {
		return b
	}
	return b.text(name, value)
}

func (b builder) number(name string, n int64) builder {
	return b.text(name, strconv.FormatInt(n, 10))
}

func (b builder) flag(name string, is bool) builder {
	return b.text(name, strconv.FormatBool(is))
}

func (b builder) time(name string, t time.Time) builder {
	return b.text(name, t.UTC().Format(timeFormat))
}

func (b builder) etag(value string) builder {
	return b.text("ETag", `"`+value+`"`)
}

// escape appends text. A byte that is no UTF-8 becomes U+FFFD.
func (b builder) escape(text string) builder {
	for _, r := range text {
		switch {
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '"':
			b = append(b, "&quot;"...)
		case r < ' ' || r == 0xFFFE || r == 0xFFFF:
			b = append(b, "&#x"...)
			b = append(b, strings.ToUpper(strconv.FormatInt(int64(r), 16))...)
			b = append(b, ';')
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// Encoding is how keys are written in a listing.
type Encoding string

const (
	// EncodingNone: as they are.
	EncodingNone Encoding = ""
	// EncodingURL: percent-encoded, all but letters, digits and "-_./*". A blank is
	// %20, which every client decodes.
	EncodingURL Encoding = "url"
)

func (e Encoding) apply(text string) string {
	if e != EncodingURL {
		return text
	}
	var out []byte
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_./*", c) >= 0:
			out = append(out, c)
		default:
			out = append(out, '%')
			at := len(out)
			out = hex.AppendEncode(out, []byte{c})
			copy(out[at:], strings.ToUpper(string(out[at:])))
		}
	}
	return string(out)
}
