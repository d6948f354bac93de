package httpguard

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// body is what a client is told.
type body struct {
	Code     string `json:"code"`
	Reason   string `json:"reason"`
	Resource string `json:"resource,omitempty"`
	Mark     *mark  `json:"mark,omitempty"`
}

type mark struct {
	Generation uint32 `json:"generation"`
	Issuer     string `json:"issuer"`
	Writer     int64  `json:"writer,string"`
	Reader     int64  `json:"reader,string"`
}

// The keys of what the Logger gets.
const (
	logMethod    = "method"
	logResource  = "resource"
	logPresented = "presented"
	logMark      = "mark"
	logError     = "error"
)

// refuse answers a request that was not admitted. Of err only what package
// guard says reaches the client: the rest may name servers and users.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusServiceUnavailable
	told := body{Code: carrier.CodeUnavailable, Reason: "the fence could not be entered in time"}
	if refusal, ok := carrier.RefusalOf(err); ok {
		status = refusal.Status
		told = body{Code: refusal.Code, Reason: refusal.Reason.Error()}
	}
	var refused guard.RefusedError
	if e := (*guard.RefusedError)(nil); errors.As(err, &e) {
		refused = *e
		told.Resource = refused.Token.Resource
	}
	if refused.Mark.Touched() {
		told.Mark = &mark{refused.Mark.Generation, refused.Mark.Issuer, refused.Mark.Writer, refused.Mark.Reader}
	}
	if flaw := (*guard.RefusedError)(nil); errors.As(headerFlaw(r), &flaw) {
		told.Reason = flaw.Reason.Error() // it speaks of what the client sent
	}
	m.config.Logger.WarnContext(r.Context(), "not admitted", logMethod, r.Method, logResource, refused.Token.Resource,
		logPresented, refused.Token, logMark, refused.Mark, logError, err)
	if err := answer(w, status, told); err != nil {
		m.config.Logger.DebugContext(r.Context(), "answer is not sent", logError, err)
	}
}

func headerFlaw(r *http.Request) error {
	_, err := carrier.HeaderTokens(r.Header)
	return err
}

func answer(w http.ResponseWriter, status int, told body) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store") // 501 is cacheable by default (RFC 9110, 15.1)
	h.Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(told)
}
