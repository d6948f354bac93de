package gateway

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/header"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/sigv4"
)

// defaultPatience is how long a client is left without a sign of life: S3 sends the
// first blank after some seconds, and clients give up after a minute.
const defaultPatience = 10 * time.Second

// late answers with what act comes to. If that takes longer than patience the answer begins
// before it is known: status 200, and blanks in front of the document, as S3
// does for copies and completions. An error is then told in the document, where
// every SDK looks for it. The body of the request has been read.
func (x *exchange) late(patience time.Duration, act func() (s3xml.Document, error)) error {
	return x.awaited(patience, act, func(err error) s3xml.Document {
		e := refusal.Of(err, x.target.Access)
		x.report(e)
		x.notAgain(err, e)
		return s3xml.Error{Code: e.Code, Message: e.Message, Resource: x.r.URL.Path, RequestID: x.id, Extra: e.Extra}
	})
}

// awaited is late, with what becomes of an error when the answer has begun. If nothing
// can, for no client would look for it there, the answer is broken off.
func (x *exchange) awaited(patience time.Duration, act func() (s3xml.Document, error), told func(error) s3xml.Document) error {
	waiting := x.w.KeepAlive(patience, func() { x.w.Header().Set("Content-Type", "application/xml") }, s3xml.Declaration)
	defer waiting.Stop() // act may panic
	doc, err := act()
	switch begun := waiting.Stop(); {
	case err != nil && (!begun || told == nil):
		return err
	case !begun:
		return x.xml(http.StatusOK, doc)
	case err != nil:
		doc = told(err)
	}
	_, err = x.w.Write(s3xml.Append(nil, doc))
	return err
}

// readXML reads a body that is a document.
func readXML[T any](p *sigv4.Payload, read func(io.Reader) (T, error)) (T, error) {
	doc, err := read(p)
	if errors.Is(err, s3xml.ErrTooLarge) {
		return doc, refusal.New(refusal.MaxMessageLengthExceeded, "Your request was too big.")
	}
	return doc, err
}

// maxPage is the most of anything that a listing has on one page.
const maxPage = 1000

// limit reads a parameter that says how much a page may have, or where it
// begins: a number from 0 on.
func (x *exchange) limit(name string, otherwise, most int) (int, error) {
	text := x.target.Query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, header.Invalid(name, text, "Provided %s not an integer or within integer range", name)
	}
	if n < 0 {
		return 0, header.Invalid(name, text, "Argument %s must be an integer between 0 and 2147483647", name)
	}
	return min(int(n), most), nil
}

// encoding reads how keys are to be written.
func (x *exchange) encoding() (s3xml.Encoding, error) {
	switch text := x.target.Query.Get("encoding-type"); text {
	case "":
		return s3xml.EncodingNone, nil
	case "url":
		return s3xml.EncodingURL, nil
	default:
		return "", header.Invalid("encoding-type", text, "Invalid Encoding Method specified in Request")
	}
}
