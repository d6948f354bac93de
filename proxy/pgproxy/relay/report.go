package relay

import (
	"log/slog"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
)

// count counts what goes in front of a message.
func (s *session) count(v gate.Verdict) {
	for i, k := range kinds {
		if v.Before&k.prefix != 0 {
			s.Config.Metrics.Checks[i].Inc()
		}
	}
}

// remember keeps the text of a message, if refusals are to be logged with it.
func (s *session) remember(kind byte, body []byte, v gate.Verdict) {
	number := uint64(0)
	if v.Before != 0 {
		number = s.machine.Number()
	}
	s.texts.forward(kind, body, number)
}

// reworded is an error of the server's as the client gets it.
func (s *session) reworded(body []byte, answer gate.Answer) []byte {
	if answer.Do == gate.Strip {
		return s.refused(body, answer.Number)
	}
	if s.token == "" && s.Config.Untokened != gate.ReadOnly || pgwire.FieldOf(body, pgwire.Detail)+pgwire.FieldOf(body, pgwire.Hint) != "" {
		return pgwire.AppendErrorWith(nil, body) // as it is: not our doing, or it says more already
	}
	return pgwire.AppendErrorWith(nil, body, refusal.ReadOnly(s.token != "")...)
}

// refused reports the refusal of the message of that number, and returns it as the
// client gets it: without the line that says where the check was called.
func (s *session) refused(body []byte, number uint64) []byte {
	if !s.own.Fenced {
		return unfenced(body)
	}
	code := pgwire.FieldOf(body, pgwire.Code)
	if known, ok := carrier.RefusalBySQLState(code); ok {
		message := pgwire.FieldOf(body, pgwire.Message)
		log := withDetail(s.Log, detailOf(body))
		t := s.refusedToken(message)
		if t.Resource != "" {
			log = log.With(keyResource, t.Resource, keyNumber, t.Number)
		}
		s.Config.Metrics.Refused(known.Reason.Error(), t.Resource)
		if text := s.texts.refused(number); text != "" {
			log = log.With(keyStatement, text)
		}
		log.Warn("statement refused", keyCode, code, keyReason, message)
	}
	return pgwire.AppendErrorWithout(nil, body, pgwire.Where)
}

// refusedToken is the token of the session's that a refusal is about; the zero Token if
// it is about none. Of several it is the one whose resource the message names, see
// fence.refuse.
func (s *session) refusedToken(message string) guard.Token {
	tokens, err := carrier.GUCTokens(s.asked)
	if err != nil {
		return guard.Token{}
	}
	if len(tokens) == 1 {
		return tokens[0]
	}
	for _, t := range tokens {
		if strings.Contains(message, ` for "`+t.Resource+`"`) {
			return t
		}
	}
	return guard.Token{}
}

// detailOf is the detail of a refusal. If the token was refused when it was looked
// up, it comes behind the hint: see (*serverError).refusal.
func detailOf(body []byte) string {
	detail := pgwire.FieldOf(body, pgwire.Detail)
	if detail == "" {
		_, detail, _ = strings.Cut(pgwire.FieldOf(body, pgwire.Hint), "\n")
	}
	return detail
}

// withDetail is log with the detail of a refusal, if it has one: the mark, or whom
// a claim has waited for.
func withDetail(log *slog.Logger, detail string) *slog.Logger {
	if detail == "" {
		return log
	}
	detail = withoutHolder(detail)
	if mark, ok := strings.CutPrefix(detail, "mark: "); ok {
		return log.With(keyMark, mark)
	}
	return log.With(keyDetail, detail)
}

// withoutHolder is the detail of a refusal without the mark's holder: whoever
// reads it in a log could pose as the holder.
func withoutHolder(detail string) string {
	before, after, found := strings.Cut(detail, " holder=")
	if !found {
		return detail
	}
	_, after, _ = strings.Cut(after, " ")
	return before + " " + after
}

// unfenced makes a refusal of what a database says that has no fence: there the
// text of the refusal is no integer, and part of the message.
func unfenced(body []byte) []byte {
	_, said, _ := strings.Cut(pgwire.FieldOf(body, pgwire.Message), `"`)
	code, text, _ := strings.Cut(strings.TrimSuffix(said, `"`), " ")
	if !isRefusal(code) {
		return pgwire.AppendErrorWithout(nil, body, pgwire.Where)
	}
	message, hint, _ := strings.Cut(text, "\n")
	r := refusal.Statement(message, hint)
	r.State = code
	return r.Wire()
}

// claimed reports the claim of a token.
func (s *session) claimed(t guard.Token, took time.Duration, err *serverError) {
	result := "ok"
	if err != nil {
		result = err.code
		withDetail(s.Log, err.detail).Warn("claim refused", keyResource, t.Resource, keyNumber, t.Number, keyCode, err.code, keyReason, err.message)
	} else {
		s.Log.Info("claimed", keyResource, t.Resource, keyNumber, t.Number, keyTook, took)
	}
	s.Config.Metrics.Claims.WithLabelValues(result).Inc()
	s.Config.Metrics.ClaimSeconds.Observe(took.Seconds())
}
