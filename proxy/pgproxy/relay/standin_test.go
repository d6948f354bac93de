package relay

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
)

// standIn answers as Postgres does, as far as a handful of statements go, byte by
// byte the same each time. It sees what is committed without a check.
type standIn struct {
	version string
	token   string
	stale   bool // every check of the token is refused

	status  byte
	skip    bool
	copying byte // the message whose COPY takes data: 'Q' or 'E'
	over    bool
	// Of the transaction:
	wrote, checked bool

	statements map[string]prepared
	portals    map[string]*portal
	out        []byte
	// unfenced is how many transactions wrote and were committed unchecked.
	unfenced int
}

type prepared struct {
	text string
	own  string // the domain of its parameter, if the proxy's
}

type portal struct {
	text string
	rows int
}

func newStandIn(token string, stale bool) *standIn {
	return &standIn{version: "18.1", token: token, stale: stale, status: 'I', statements: map[string]prepared{}, portals: map[string]*portal{}}
}

// domainOID is the oid of the i-th of the domains.
const domainOID = 90_000

func (s *standIn) say(m pgproto3.BackendMessage) {
	var err error
	if s.out, err = m.Encode(s.out); err != nil {
		panic(err)
	}
}

func (s *standIn) done(tag string) { s.say(&pgproto3.CommandComplete{CommandTag: []byte(tag)}) }

func (s *standIn) ready() { s.say(&pgproto3.ReadyForQuery{TxStatus: s.status}) }

// end ends a transaction.
func (s *standIn) end(commit bool) {
	if commit && s.wrote && !s.checked {
		s.unfenced++
	}
	s.wrote, s.checked, s.status = false, false, 'I'
	clear(s.portals)
}

// fail fails a statement; by the extended protocol up to Sync.
func (s *standIn) fail(code string, extended bool) bool {
	s.say(&pgproto3.ErrorResponse{Severity: "ERROR", Code: code, Message: "no"})
	if s.status == 'I' {
		s.end(false)
	} else {
		s.status, s.wrote = 'E', false
		clear(s.portals)
	}
	s.skip = extended
	return false
}

// take takes a message and returns what it answers.
func (s *standIn) take(kind byte, body []byte) []byte {
	s.out = nil
	switch {
	case kind == 'X':
		s.over = true
	case s.copying != 0:
		s.copyIn(kind)
	case kind == 'S':
		s.skip = false
		if s.status == 'I' {
			s.end(true)
		}
		s.ready()
	case s.skip, kind == 'H', kind == 'd', kind == 'c', kind == 'f':
	case kind == 'Q':
		s.query(cString(body))
	case kind == 'F':
		s.function()
	case strings.IndexByte("PBDEC", kind) >= 0:
		s.extended(kind, body)
	default:
		s.say(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "invalid frontend message type"})
		s.over = true
	}
	return s.out
}

func (s *standIn) copyIn(kind byte) {
	was := s.copying
	switch kind {
	case 'd', 'H', 'S':
		return
	case 'c':
		s.wrote = true
		s.done("COPY 1")
	default:
		s.fail("57014", was == 'E')
	}
	s.copying = 0
	if was == 'Q' {
		s.queryEnds()
	}
}

func (s *standIn) query(text string) {
	if strings.TrimSpace(text) == "" {
		s.say(&pgproto3.EmptyQueryResponse{})
	}
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if !known(part) {
			s.fail("42601", false)
			break
		}
		if !s.run(part, &portal{text: part}, 0, 'Q') {
			break
		}
		if s.copying != 0 {
			return
		}
	}
	s.queryEnds()
}

func (s *standIn) queryEnds() {
	if s.status == 'I' {
		s.end(true)
	}
	s.ready()
}

func (s *standIn) function() {
	if s.status == 'E' {
		s.fail("25P02", false)
	} else {
		s.wrote = true
		s.say(&pgproto3.FunctionCallResponse{Result: []byte("1")})
	}
	s.queryEnds()
}

// known reports whether a text is a statement.
func known(text string) bool {
	text = strings.TrimLeft(text, " ")
	return text != "" && !strings.HasPrefix(text, "SELEC ") && (strings.IndexByte("ABCDEFILNRSV", text[0]) >= 0 || text == own.EmptyText)
}

func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

func cut(b []byte) (name string, rest []byte) {
	head, rest, _ := bytes.Cut(b, []byte{0})
	return string(head), rest
}

func (s *standIn) extended(kind byte, body []byte) {
	switch kind {
	case 'P':
		s.parse(body)
	case 'B':
		s.bind(body)
	case 'D':
		s.describe(body)
	case 'E':
		name, rest := cut(body)
		p, ok := s.portals[name]
		if !ok || len(rest) < 4 {
			s.fail("34000", true)
			return
		}
		s.run(p.text, p, int(binary.BigEndian.Uint32(rest)), 'E')
	case 'C':
		if name, _ := cut(body[min(1, len(body)):]); len(body) > 0 && body[0] == 'S' {
			delete(s.statements, name)
		} else {
			delete(s.portals, name)
		}
		s.say(&pgproto3.CloseComplete{})
	}
}

func (s *standIn) parse(body []byte) {
	name, rest := cut(body)
	text, rest := cut(rest)
	_, exists := s.statements[name]
	switch {
	case name == "":
		delete(s.statements, name)
	case exists:
		s.fail("42P05", true)
		return
	}
	if text != "" && !known(text) {
		s.fail("42601", true)
		return
	}
	if s.status == 'E' && !exits(text) {
		s.fail("25P02", true)
		return
	}
	p := prepared{text: text}
	for i, domain := range own.Domains() {
		if len(rest) >= 6 && binary.BigEndian.Uint32(rest[2:]) == uint32(domainOID+i) {
			p.own = domain
		}
	}
	s.statements[name] = p
	s.say(&pgproto3.ParseComplete{})
}

func (s *standIn) bind(body []byte) {
	name, rest := cut(body)
	statement, _ := cut(rest)
	p, ok := s.statements[statement]
	switch {
	case !ok:
		s.fail("26000", true)
		return
	case s.status == 'E' && !exits(p.text):
		s.fail("25P02", true)
		return
	}
	switch p.own {
	case "": // the client's
	case "refusal":
		s.fail("TK007", true)
		return
	case "present":
	default:
		if s.stale {
			s.fail("TK001", true)
			return
		}
		// Entering a block is not leaving it.
		s.checked = s.checked || p.own != "enters" || s.status == 'I' && s.token != ""
	}
	s.portals[name] = &portal{text: p.text, rows: 3}
	s.say(&pgproto3.BindComplete{})
}
