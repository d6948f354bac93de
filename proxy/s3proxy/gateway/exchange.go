package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/lane"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/operation"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/wire"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

const (
	maxPut = 5 << 30 // bytes, of one PUT
	// smallBody is the size in bytes up to which a body is not asked for before
	// it is read whether it may be written: that would cost a request more.
	smallBody = 1 << 20
)

// exchange is one request and its answer.
type exchange struct {
	g     *Gateway
	w     *wire.Answer
	r     *http.Request
	in    *wire.Intake
	id    string
	begun time.Time

	target   operation.Target
	client   *Client
	signed   *sigv4.Request
	promoted []string // headers that came in the query
	tokens   []guard.Token
	store    *s3store.Store // of target.Bucket
}

func (x *exchange) ctx() context.Context { return x.r.Context() }

// covers reports whether the signature covers a header.
func (x *exchange) covers(header string) bool {
	return slices.Contains(x.promoted, header) || x.signed.Signed(header)
}

// writeToken returns the token to write key with. Whoever is going to send a
// large body, or waits for leave to do so, learns here that it would be refused.
func (x *exchange) writeToken(key string, size int64) (guard.Token, error) {
	token, err := x.store.Choose(x.ctx(), x.tokens, key)
	if err != nil {
		return token, err
	}
	return token, x.mayWrite(token, key, size)
}

func (x *exchange) mayWrite(token guard.Token, key string, size int64) error {
	if size > smallBody || size != 0 && x.expects() {
		return x.store.Check(x.ctx(), token, key, x.checking())
	}
	return token.MayWrite()
}

// expects reports whether the client waits before it sends its body.
func (x *exchange) expects() bool { return x.r.Header.Get("Expect") != "" }

// readToken returns the token to read key with. Where reads need none, they
// need none for this key either.
func (x *exchange) readToken(key string) (guard.Token, error) {
	if len(x.tokens) == 0 { // then none is needed
		return guard.Token{}, nil
	}
	token, err := x.store.Choose(x.ctx(), x.tokens, key)
	if isNoToken(err) && x.g.config.Untokened != Deny {
		return x.tokens[0], nil
	}
	return token, err
}

// payload returns the body, decoded. It hands out its last byte when all that
// the client said of it has held.
func (x *exchange) payload() (*sigv4.Payload, error) {
	p, err := x.signed.Payload()
	if err != nil {
		return nil, err
	}
	if p.Size() < 0 {
		return nil, refusal.New(refusal.MissingContentLength, "You must provide the Content-Length HTTP header.")
	}
	if p.Size() == 0 { // there is no last byte to wait for
		if _, err := p.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return p, nil
}

// reply answers without a body.
func (x *exchange) reply(status int) error {
	if status != http.StatusNoContent && status != http.StatusNotModified {
		x.w.Header().Set("Content-Length", "0")
	}
	x.w.WriteHeader(status)
	return nil
}

// xml answers with a document.
func (x *exchange) xml(status int, d s3xml.Document) error {
	data := s3xml.Encode(d)
	h := x.w.Header()
	h.Set("Content-Type", "application/xml")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	x.w.WriteHeader(status)
	_, err := x.w.Write(data)
	return err
}

// settle is done before the answer begins: nobody reads the body any more. What is left
// of it is the connection's.
func (x *exchange) settle() { x.in.Stop() }

// end is the end of the exchange.
func (x *exchange) end() {
	x.in.Stop()
	if x.w.Status() == 0 {
		return // the connection is broken off
	}
	x.g.metrics.Requests.WithLabelValues(x.name(), class(x.w.Status())).Inc()
}

// name labels the operation, of those that there are.
func (x *exchange) name() string {
	if x.target.Name == "" || x.client == nil {
		return "unknown"
	}
	return string(x.target.Name)
}

// refuse answers with an error.
func (x *exchange) refuse(err error) {
	if x.w.Status() != 0 { // the client must not take what it has for the whole
		x.log("broken off", err)
		x.breakOff()
	}
	failed := x.in.Failed()
	if failed != nil && !refusal.Unknown(err) && !errors.Is(err, s3store.ErrOlderWrite) { // which is told once (I9)
		err = guard.WithOutcome(failed, guard.NotApplied)
	}
	if failed == nil && x.ctx().Err() != nil { // there is nobody to be told
		x.log("gone", err)
		x.breakOff()
	}
	e := refusal.Of(err, x.target.Access)
	x.report(e)
	if e.Status == http.StatusNotModified {
		_ = x.reply(e.Status)
		return
	}
	h := x.w.Header()
	for name := range h {
		if name != "X-Amz-Request-Id" && name != "Connection" {
			h.Del(name) // it is of an answer that did not come to be
		}
	}
	_ = x.xml(e.Status, s3xml.Error{Code: e.Code, Message: e.Message, Resource: x.r.URL.Path, RequestID: x.id, Extra: e.Extra})
}

// breakOff ends the connection without an answer, or in the middle of it.
func (x *exchange) breakOff() { panic(http.ErrAbortHandler) }

// bufferSize is that in bytes of the pieces in which bodies go to clients.
const bufferSize = 128 << 10

// stream answers with so many bytes of body.
func (x *exchange) stream(status int, body io.Reader, size int64) error {
	x.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	x.w.WriteHeader(status)
	if size == 0 || x.w.Bare() {
		return nil
	}
	buffer := x.g.buffers.Get().(*[]byte)
	defer x.g.buffers.Put(buffer)
	if o, ok := body.(*s3store.Object); ok {
		if direct, ok := o.ReadCloser.(*lane.Body); ok {
			return x.w.Move(direct, size, *buffer)
		}
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{x.w}, io.LimitReader(body, size), *buffer)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
