package relay

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// run runs one statement, and reports whether what comes behind it may run.
func (s *standIn) run(text string, p *portal, most int, by byte) bool {
	text = strings.TrimLeft(text, " ")
	verb, _, _ := strings.Cut(text, " ")
	if s.status == 'E' && !exits(text) {
		return s.fail("25P02", by == 'E')
	}
	switch verb {
	case "/*":
		s.say(&pgproto3.EmptyQueryResponse{})
	case "":
		s.say(&pgproto3.EmptyQueryResponse{})
	case "SELECT":
		return s.selects(text, p, most, by)
	case "INSERT":
		s.wrote = true
		s.done("INSERT 0 1")
	case "DO", "VACUUM":
		s.wrote = true
		s.done(verb)
	case "FAIL":
		s.wrote = true
		return s.fail("22012", by == 'E')
	case "NOTIFY":
		s.say(&pgproto3.NotificationResponse{PID: 1, Channel: "c", Payload: "p"})
		s.say(&pgproto3.NoticeResponse{Severity: "NOTICE", Code: "00000", Message: "heard"})
		s.say(&pgproto3.ParameterStatus{Name: "application_name", Value: "a"})
		s.done("NOTIFY")
	case "COPY":
		s.copies(text, by)
	case "BEGIN", "COMMIT", "ROLLBACK":
		s.transact(verb)
	case "DEALLOCATE":
		clear(s.statements)
		s.done("DEALLOCATE ALL")
	default:
		s.done(verb)
	}
	return true
}

func (s *standIn) copies(text string, by byte) {
	if strings.HasSuffix(text, "FROM STDIN") {
		s.say(&pgproto3.CopyInResponse{ColumnFormatCodes: []uint16{0}})
		s.copying = by
		return
	}
	s.say(&pgproto3.CopyOutResponse{ColumnFormatCodes: []uint16{0}})
	s.say(&pgproto3.CopyData{Data: []byte("1\ta\n")})
	s.say(&pgproto3.CopyData{Data: []byte(strings.Repeat("x", stream.BufferSize))})
	s.say(&pgproto3.CopyDone{})
	s.done("COPY 2")
}

func (s *standIn) transact(verb string) {
	switch {
	case verb == "BEGIN" && s.status == 'I':
		s.status = 'T'
	case verb == "BEGIN":
		s.say(&pgproto3.NoticeResponse{Severity: "WARNING", Code: "25001", Message: "there is already a transaction in progress"})
	case verb == "COMMIT" && s.status == 'E':
		s.end(false)
		verb = "ROLLBACK"
	default:
		if s.status == 'I' {
			s.say(&pgproto3.NoticeResponse{Severity: "WARNING", Code: "25P01", Message: "there is no transaction in progress"})
		}
		s.end(verb == "COMMIT")
	}
	s.done(verb)
}

// selects answers a SELECT: of the client's, rows; of the proxy's, what it wants
// to know.
func (s *standIn) selects(text string, p *portal, most int, by byte) bool {
	row := func(values ...string) {
		m := &pgproto3.DataRow{}
		for _, v := range values {
			m.Values = append(m.Values, []byte(v))
		}
		s.say(m)
	}
	switch {
	case strings.HasPrefix(text, "SELECT coalesce("):
		values := []string{s.token, "read committed"}
		for i := range own.Domains() {
			values = append(values, strconv.Itoa(domainOID+i))
		}
		row(values...)
	case strings.HasPrefix(text, "SELECT pg_catalog.current_setting("):
		row(s.token)
	case strings.HasPrefix(text, "SELECT t.seq"):
		row("1", "2")
	case by == 'Q':
		s.say(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("v")}}})
		row("a")
		if strings.HasSuffix(text, "big") {
			row(strings.Repeat("x", 2*stream.BufferSize))
		}
	default:
		for n := 1; p.rows > 0; n++ {
			p.rows--
			row("r" + strconv.Itoa(p.rows))
			if most > 0 && n == most {
				s.say(&pgproto3.PortalSuspended{})
				return true
			}
		}
	}
	s.done("SELECT 1")
	return true
}

func (s *standIn) describe(body []byte) {
	if len(body) == 0 {
		s.fail("08P01", true)
		return
	}
	name, _ := cut(body[1:])
	var text string
	if p, ok := s.portals[name]; ok && body[0] == 'P' {
		text = p.text
	} else if st, ok := s.statements[name]; ok && body[0] == 'S' {
		text = st.text
		s.say(&pgproto3.ParameterDescription{})
	} else {
		s.fail("34000", true)
		return
	}
	if strings.HasPrefix(text, "SELECT") {
		s.say(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("v")}}})
	} else {
		s.say(&pgproto3.NoData{})
	}
}

func exits(text string) bool {
	return strings.HasPrefix(text, "COMMIT") || strings.HasPrefix(text, "ROLLBACK")
}

// greeting is what it says after AuthenticationOk.
func (s *standIn) greeting() []byte {
	s.out = nil
	s.say(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	s.say(&pgproto3.ParameterStatus{Name: "server_version", Value: s.version})
	s.say(&pgproto3.BackendKeyData{ProcessID: 7, SecretKey: []byte{1, 2, 3, 4}})
	s.ready()
	return s.out
}

// frames cuts whole messages off what has come, until f says that it is enough.
func frames(b []byte, f func(kind byte, body []byte) bool) (rest []byte, broken bool) {
	for len(b) >= pgwire.HeaderSize {
		n, ok := pgwire.Length(b)
		if !ok {
			return b, true
		}
		if len(b) < pgwire.HeaderSize+n {
			break
		}
		if !f(b[0], b[pgwire.HeaderSize:pgwire.HeaderSize+n]) {
			return nil, true
		}
		b = b[pgwire.HeaderSize+n:]
	}
	return b, false
}
