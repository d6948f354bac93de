package relay

import (
	"bytes"
	"unicode/utf8"
)

const (
	// longestText is how much of a statement's text is logged, in bytes.
	longestText = 1 << 10
	// mostTexts is how many are kept: of prepared statements, of portals, and of
	// messages that the server has not answered. Of more the text is not logged.
	mostTexts = 256
)

// texts are the texts of a client's statements, kept to be logged with their
// refusals. A nil *texts keeps none. It is for who holds mu.
type texts struct {
	statements, portals map[string]string
	ran                 string // by the last Execute
	sent                []sentText
}

// sentText is the text of a message that something went in front of.
type sentText struct {
	number uint64
	text   string
}

func newTexts(wanted bool) *texts {
	if !wanted {
		return nil
	}
	return &texts{statements: map[string]string{}, portals: map[string]string{}}
}

// forward takes a message that goes to the server; something went in front of it,
// if number is not 0.
func (t *texts) forward(kind byte, body []byte, number uint64) {
	if t == nil {
		return
	}
	text := t.of(kind, body)
	if number == 0 {
		return
	}
	if len(t.sent) == mostTexts {
		t.sent = append(t.sent[:0], t.sent[1:]...)
	}
	t.sent = append(t.sent, sentText{number, text})
}

// of is the text of the statement that a message is about.
func (t *texts) of(kind byte, body []byte) string {
	first, rest, _ := bytes.Cut(body, []byte{0})
	switch kind {
	case 'Q':
		return clip(first)
	case 'P':
		text, _, _ := bytes.Cut(rest, []byte{0})
		return keep(t.statements, first, clip(text))
	case 'B':
		name, _, _ := bytes.Cut(rest, []byte{0})
		return keep(t.portals, first, t.statements[string(name)])
	case 'E':
		t.ran = t.portals[string(first)]
		return t.ran
	case 'S':
		return t.ran
	}
	return ""
}

func keep(all map[string]string, name []byte, text string) string {
	if len(all) >= mostTexts {
		clear(all)
	}
	if len(name) <= longestText {
		all[string(name)] = text
	}
	return text
}

// refused is the text of the message of that number, "" if it is not known. Those
// before it have been answered.
func (t *texts) refused(number uint64) string {
	if t == nil {
		return ""
	}
	for i, s := range t.sent {
		if s.number == number {
			t.sent = append(t.sent[:0], t.sent[i:]...)
			return s.text
		}
	}
	return ""
}

// clip is the beginning of a text, as a whole number of characters.
func clip(text []byte) string {
	if len(text) <= longestText {
		return string(text)
	}
	end := longestText
	for end > longestText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + "…"
}
