package refusal

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/internal/s3code"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// Error is an answer that is an error: S3's code and status, and a message that
// the client may see. As an error it is what a handler returns.
type Error struct {
	Status        int
	Code, Message string
	// Extra are further elements of the XML.
	Extra map[string]string
	// Reason is the label of refusals_total: what the fence refused. "" for
	// anything else.
	Reason string
	// Cause is what the log is told and the client is not.
	Cause error
}

// Error is the message, with its code and its cause.
func (e *Error) Error() string {
	text := e.Code + ": " + e.Message
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New returns an error with one of S3's codes.
func New(code Code, format string, args ...any) *Error {
	return &Error{Status: code.Status(), Code: string(code), Message: fmt.Sprintf(format, args...)}
}

// Fence returns the answer to a request that the fence refuses for this reason,
// a sentinel of package guard.
func Fence(reason error, format string, args ...any) *Error {
	r, _ := carrier.RefusalOf(reason)
	return &Error{
		Status: r.Status, Code: r.Code, Message: "fence: " + reason.Error() + ": " + fmt.Sprintf(format, args...),
		Reason: r.Reason.Error(),
	}
}

// Of returns the answer to a request that ended with err. A write of which it is
// not known whether it was carried out says so, and nothing else does (I2).
func Of(err error, access operation.Access) *Error {
	var (
		own     *Error
		signing *sigv4.Error
		syntax  *s3xml.SyntaxError
	)
	switch {
	case errors.As(err, &own):
		return own
	case access == operation.Write && Unknown(err): // whatever is wrong with the body, too
		return unknown(err)
	case errors.Is(err, s3store.ErrOlderWrite): // which is told once, whatever is wrong with the body
		return stored(err)
	case errors.As(err, &signing): // of the request, or of its body while it was read
		return signature(signing)
	case errors.As(err, &syntax):
		return New(MalformedXML, "%s", syntax.Error())
	case errors.Is(err, s3xml.ErrTooLarge):
		return New(MaxMessageLengthExceeded, "Your request was too big.")
	case access == operation.Write && guard.OutcomeOf(err) == guard.Unknown:
		return unknown(err)
	}
	if e := fenced(err); e != nil {
		return e
	}
	if e := stored(err); e != nil {
		return e
	}
	if e := body(err); e != nil {
		return e
	}
	if r := (minio.ErrorResponse{}); errors.As(err, &r) {
		return upstream(&r, err)
	}
	return unavailable("The store cannot be reached. Nothing was written.", err)
}

// Unknown reports whether an error says of its write that nobody knows what became of
// it. One that says nothing of it does not.
func Unknown(err error) bool {
	var o *guard.OutcomeError
	return errors.As(err, &o) && o.Known == guard.Unknown
}

func signature(e *sigv4.Error) *Error {
	answer := &Error{Status: e.Status, Code: e.Code, Message: e.Message}
	if e.Region != "" {
		answer.Extra = map[string]string{"Region": e.Region}
	}
	return answer
}

func unknown(err error) *Error {
	return &Error{
		Status: http.StatusInternalServerError, Code: string(InternalError), Cause: err,
		Message: "It is unknown whether the write was carried out: the store's answer was lost. To send it again is safe.",
	}
}

// fenced is what package guard refuses.
func fenced(err error) *Error {
	r, ok := carrier.RefusalOf(err)
	if !ok {
		return nil
	}
	message := "fence: " + r.Reason.Error()
	var refused *guard.RefusedError
	if errors.As(err, &refused) {
		message = refused.Error()
	}
	return &Error{Status: r.Status, Code: r.Code, Message: message, Reason: r.Reason.Error(), Cause: err}
}

// stored is what package s3store decides.
func stored(err error) *Error {
	var e *Error
	switch {
	case errors.Is(err, s3store.ErrNotFound):
		e = New(NoSuchKey, "The specified key does not exist.")
	case errors.Is(err, s3store.ErrNotModified):
		e = New(NotModified, "Not Modified")
	case errors.Is(err, s3store.ErrPrecondition):
		e = New(PreconditionFailed, "At least one of the pre-conditions you specified did not hold")
	case errors.Is(err, s3store.ErrOlderWrite):
		// SDKs do not repeat a 412 by themselves: what the client read before may
		// be out of date (I9).
		e = New(PreconditionFailed, "A write of an older token came first. Nothing was written: look at the object before you try again.")
	case errors.Is(err, s3store.ErrConflict):
		e = New(SlowDown, "Another write under the same token came first. Nothing was written: try again.")
	default:
		return nil
	}
	e.Cause = err
	return e
}

// body is what became of a request's body.
func body(err error) *Error {
	var b *BodyError
	if !errors.As(err, &b) {
		return nil
	}
	e := New(IncompleteBody, "The request body terminated unexpectedly")
	if errors.Is(b, os.ErrDeadlineExceeded) {
		e = New(RequestTimeout, "Your socket connection to the server was not read from or written to within the timeout period.")
	}
	e.Cause = err
	return e
}

// BodyError is an error of reading a client's body from its connection.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "read body: " + e.Err.Error() }

// Unwrap returns the connection's error.
func (e *BodyError) Unwrap() error { return e.Err }

// upstream is what the store answered. Its words about who asked are about the
// proxy, and not for the client.
func upstream(r *minio.ErrorResponse, err error) *Error {
	switch {
	case r.Code == string(SlowDown):
		return &Error{Status: SlowDown.Status(), Code: r.Code, Message: "The store asks for fewer requests. Nothing was written.", Cause: err}
	case r.StatusCode >= http.StatusInternalServerError && r.StatusCode != http.StatusNotImplemented:
		return unavailable("The store cannot serve the request now. Nothing was written.", err)
	case s3code.AboutKeys(r.Code):
		return unavailable("The store does not serve the proxy. Nothing was written.",
			fmt.Errorf("the store refuses the proxy's own keys (upstream.access_key): %s: %w", r.Code, err))
	case proxys(r.Code), r.StatusCode < http.StatusBadRequest && r.StatusCode != http.StatusNotModified:
		return unavailable("The store does not serve the proxy. Nothing was written.", err)
	}
	return &Error{Status: r.StatusCode, Code: oneWord(r.Code), Message: r.Message, Cause: err}
}

func unavailable(message string, err error) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: carrier.CodeUnavailable, Message: message, Cause: err}
}

// proxys reports whether a code is about the proxy's own signature, for another reason
// than its keys.
func proxys(code string) bool {
	switch code {
	case "RequestTimeTooSkewed", "AuthorizationHeaderMalformed", "XAmzContentSHA256Mismatch", "AuthorizationQueryParametersError":
		return true
	}
	return false
}

// oneWord is code, unless the store sent none and minio-go put a status line in
// its place.
func oneWord(code string) string {
	if code == "" || strings.ContainsAny(code, " \t") {
		return string(InvalidRequest)
	}
	return code
}
