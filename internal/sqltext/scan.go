package sqltext

import "strings"

// Dialect is what a session's settings change about the scanner. The zero
// Dialect is that of PostgreSQL's defaults.
type Dialect struct {
	// BackslashQuotes is set for a session with standard_conforming_strings
	// off, where a backslash escapes inside an ordinary '…' too.
	BackslashQuotes bool
}

// Kind says what a token is.
type Kind uint8

const (
	// End is after the last token.
	End Kind = iota
	// Word is a keyword or an identifier without quotes.
	Word
	// QuotedWord is "…", never a keyword.
	QuotedWord
	// Literal is a string in any of its forms, with its prefix of one letter.
	Literal
	// Number is a run of digits, also that of a parameter like $1.
	Number
	// Symbol is any other single byte: punctuation, one byte of an operator.
	Symbol
)

// Token is a piece of a text, bytes Start to Stop of it.
type Token struct {
	Kind        Kind
	Start, Stop int
}

// Scanner reads the tokens of a text in turn, without blanks and comments.
type Scanner struct {
	text    string
	dialect Dialect
	at      int
	open    bool
}

// NewScanner returns a scanner at the start of text.
func NewScanner(text string, d Dialect) *Scanner { return &Scanner{text: text, dialect: d} }

// Open reports whether the text ended inside a literal, a quoted word or a
// comment. What is appended to such a text becomes part of that.
func (s *Scanner) Open() bool { return s.open }

// Next returns the next token.
func (s *Scanner) Next() Token {
	s.skipBlank()
	t := Token{Start: s.at, Kind: End}
	if s.at < len(s.text) {
		t.Kind = s.token()
	}
	t.Stop = s.at
	return t
}

func (s *Scanner) token() Kind {
	c := s.text[s.at]
	switch {
	case c == '\'':
		s.at++
		s.literal(s.dialect.BackslashQuotes)
		return Literal
	case c == '"':
		s.at++
		s.until('"')
		return QuotedWord
	case c == '$':
		return s.dollar()
	case wordStart(c):
		return s.word()
	case digit(c):
		for s.at < len(s.text) && digit(s.text[s.at]) {
			s.at++
		}
		return Number
	}
	s.at++
	return Symbol
}

// word reads a word, or the literal whose prefix of one letter it is.
func (s *Scanner) word() Kind {
	start := s.at
	for s.at < len(s.text) && wordPart(s.text[s.at]) {
		s.at++
	}
	if s.at-start != 1 || s.at == len(s.text) || s.text[s.at] != '\'' {
		return Word
	}
	switch s.text[start] {
	case 'e', 'E':
		s.at++
		s.literal(true)
	case 'b', 'B', 'x', 'X':
		s.at++
		s.literal(false)
	case 'n', 'N':
		s.at++
		s.literal(s.dialect.BackslashQuotes)
	default:
		return Word
	}
	return Literal
}

// literal reads to the end of a quoted string whose opening quote has been
// read, and of those that continue it: a quote after nothing but blanks with
// a newline in them goes on with the same literal, under the same escapes.
func (s *Scanner) literal(backslash bool) {
	for {
		if !backslash {
			s.until('\'')
		} else {
			s.untilEscaped()
		}
		if s.open || !s.continues() {
			return
		}
	}
}

// until reads past the next quote that is not doubled.
func (s *Scanner) until(quote byte) {
	for {
		i := strings.IndexByte(s.text[s.at:], quote)
		if i < 0 {
			s.at, s.open = len(s.text), true
			return
		}
		s.at += i + 1
		if s.at == len(s.text) || s.text[s.at] != quote {
			return
		}
		s.at++
	}
}

func (s *Scanner) untilEscaped() {
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '\\' && s.at < len(s.text):
			s.at++
		case c == '\'' && s.at < len(s.text) && s.text[s.at] == '\'':
			s.at++
		case c == '\'':
			return
		}
	}
	s.open = true
}

// continues reads up to and over the quote that continues a literal; without
// one it reads nothing.
func (s *Scanner) continues() bool {
	newline := false
	for i := s.at; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '\n' || c == '\r':
			newline = true
		case blank(c):
		case c == '-' && strings.HasPrefix(s.text[i:], "--"):
			end := strings.IndexAny(s.text[i:], "\r\n")
			if end < 0 {
				return false
			}
			i += end - 1
		case c == '\'' && newline:
			s.at = i + 1
			return true
		default:
			return false
		}
	}
	return false
}

// dollar reads a parameter, a dollar-quoted literal or a lone dollar.
func (s *Scanner) dollar() Kind {
	i := s.at + 1
	if i < len(s.text) && digit(s.text[i]) {
		for i < len(s.text) && digit(s.text[i]) {
			i++
		}
		s.at = i
		return Number
	}
	if i < len(s.text) && wordStart(s.text[i]) {
		for i < len(s.text) && s.text[i] != '$' && wordPart(s.text[i]) {
			i++
		}
	}
	if i >= len(s.text) || s.text[i] != '$' {
		s.at++
		return Symbol
	}
	tag := s.text[s.at : i+1]
	s.at = i + 1
	end := strings.Index(s.text[s.at:], tag)
	if end < 0 {
		s.at, s.open = len(s.text), true
		return Literal
	}
	s.at += end + len(tag)
	return Literal
}

// skipBlank reads over blanks and comments.
func (s *Scanner) skipBlank() {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case blank(c):
			s.at++
		case c == '-' && strings.HasPrefix(s.text[s.at:], "--"):
			end := strings.IndexAny(s.text[s.at:], "\r\n")
			if end < 0 {
				s.at, s.open = len(s.text), true
				return
			}
			s.at += end
		case c == '/' && strings.HasPrefix(s.text[s.at:], "/*"):
			s.at += len("/*")
			s.comment()
		default:
			return
		}
	}
}

// comment reads to the end of a block comment; they nest.
func (s *Scanner) comment() {
	for depth := 1; depth > 0; {
		i := strings.IndexAny(s.text[s.at:], "*/")
		if i < 0 || s.at+i+1 >= len(s.text) {
			s.at, s.open = len(s.text), true
			return
		}
		s.at += i
		switch s.text[s.at : s.at+2] {
		case "/*":
			depth++
			s.at += 2
		case "*/":
			depth--
			s.at += 2
		default:
			s.at++
		}
	}
}

func blank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func digit(c byte) bool { return '0' <= c && c <= '9' }

func wordStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

func wordPart(c byte) bool { return wordStart(c) || digit(c) || c == '$' }
