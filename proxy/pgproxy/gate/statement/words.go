package statement

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/sqltext"
)

// words are the keywords of a short statement, or of the start of a long one.
type words []string

// maxWords is how far a statement is read for its keywords. What would matter
// comes earlier in all statements that PostgreSQL has.
const maxWords = 256

func significant(text string) words {
	scanner := sqltext.NewScanner(text, sqltext.Dialect{})
	var out words
	for len(out) < maxWords {
		t := scanner.Next()
		if t.Kind == sqltext.End {
			break
		}
		if t.Kind == sqltext.Word {
			out = append(out, strings.ToUpper(text[t.Start:t.Stop]))
		}
	}
	return out
}

// has looks for a keyword among the first n words, or among all if n is 0.
func (w words) has(keyword string, n int) bool {
	for i, word := range w {
		if n > 0 && i >= n {
			return false
		}
		if word == keyword {
			return true
		}
	}
	return false
}

// chains reports AND CHAIN, without NO.
func (w words) chains() bool {
	for i := 0; i+1 < len(w); i++ {
		if w[i] == "AND" && w[i+1] == "CHAIN" {
			return true
		}
	}
	return false
}

// hasModes reports whether a BEGIN says more than READ WRITE or READ ONLY: such
// a one fails behind a snapshot, whatever the transaction is.
func hasModes(text string) bool {
	w := significant(text)
	return w.has("ISOLATION", 0) || w.has("DEFERRABLE", 0)
}

// setsModes reports whether a SET is of the same kind.
func setsModes(s *sqltext.Statement) bool {
	if s.Verb() != "SET" {
		return false
	}
	w := significant(s.Text)
	switch {
	case w.has("TRANSACTION_ISOLATION", 3), w.has("TRANSACTION_DEFERRABLE", 3):
		return true
	case setsTransaction(s):
		return w.has("ISOLATION", 0) || w.has("DEFERRABLE", 0) || w.has("SNAPSHOT", 0)
	}
	return false
}

// setsTransaction reports SET TRANSACTION, also with LOCAL or SESSION.
func setsTransaction(s *sqltext.Statement) bool {
	return s.Verb() == "SET" && significant(s.Text).has("TRANSACTION", 3)
}

// KeepsSnapshot reports whether a text names an isolation level at which a block
// keeps its first snapshot.
func KeepsSnapshot(text string) bool { return mentions(text, "repeatable", "serializable") }

// mentions reports whether text has one of the parts, which are in lower case,
// in any case. It is asked for what may change the setting of the token, under
// its name, by set_config, or where letters are written as numbers. Too much costs
// another look at the token, and has it refused in one message with others. What is
// hidden, in a function for example, is found by the check itself, which reads the
// setting.
func mentions(text string, parts ...string) bool {
	for _, part := range parts {
		if contains(text, part) {
			return true
		}
	}
	return false
}

// contains looks for part, in lower case, in any case.
func contains(text, part string) bool {
	s := search(text, part)
	return s.next() >= 0
}

// searched is a text that is searched for a part, which is in lower case, in any
// case. It goes from one place of the part's first letter to the next, since texts
// may be long, and for the same reason looks at each byte once for either case of
// that letter, however often the part is there.
type searched struct {
	text, part   string
	lower, upper int // where the first letter is next, in each case
}

func search(text, part string) searched {
	s := searched{text: text, part: part}
	s.lower, s.upper = s.from(0, part[0]), s.from(0, part[0]-('a'-'A'))
	return s
}

// from is where a letter is from at on, or the end of the text.
func (s *searched) from(at int, letter byte) int {
	if i := strings.IndexByte(s.text[at:], letter); i >= 0 {
		return at + i
	}
	return len(s.text)
}

// next is where the part is next, -1 if it is nowhere any more.
func (s *searched) next() int {
	for {
		at := min(s.lower, s.upper)
		if len(s.text)-at < len(s.part) {
			return -1
		}
		if at == s.lower {
			s.lower = s.from(at+1, s.part[0])
		} else {
			s.upper = s.from(at+1, s.part[0]-('a'-'A'))
		}
		if strings.EqualFold(s.text[at:at+len(s.part)], s.part) {
			return at
		}
	}
}
