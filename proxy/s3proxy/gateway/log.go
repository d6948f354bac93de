package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
)

// Keys of log lines.
const (
	keyClient    = "client"
	keyAccessKey = "access_key"
	keyRequest   = "request"
	keyOperation = "operation"
	keyBucket    = "bucket"
	keyKey       = "key"
	keyCode      = "code"
	keyReason    = "reason"
	keyResource  = "resource"
	keyNumber    = "number"
	keyMark      = "mark"
	keyError     = "error"
)

// report counts and logs a request that is answered with an error: one line for
// each refusal, and for each failure of the store's.
func (x *exchange) report(e *refusal.Error) {
	level, message := slog.LevelDebug, "answered with an error"
	switch {
	case e.Reason != "":
		level, message = slog.LevelWarn, "refused"
		x.g.metrics.Refused(e.Reason, x.resource(e))
	case e.Status == http.StatusForbidden, e.Status == http.StatusNotImplemented:
		level, message = slog.LevelWarn, "refused"
	case e.Status >= http.StatusInternalServerError:
		level, message = slog.LevelError, "failed"
	}
	attrs := x.attrs()
	attrs = append(attrs, slog.String(keyCode, e.Code))
	if e.Reason != "" {
		attrs = append(attrs, slog.String(keyReason, e.Reason), slog.String(keyResource, x.resource(e)))
	}
	var refused *guard.RefusedError
	if errors.As(e.Cause, &refused) {
		attrs = append(attrs, slog.Int64(keyNumber, refused.Token.Number), slog.Any(keyMark, refused.Mark))
	}
	text := e.Message
	if e.Cause != nil {
		text = plain(e.Cause)
	}
	attrs = append(attrs, slog.String(keyError, text))
	x.g.log.LogAttrs(context.WithoutCancel(x.ctx()), level, message, attrs...)
}

func (x *exchange) log(message string, err error) {
	x.g.log.LogAttrs(context.WithoutCancel(x.ctx()), slog.LevelDebug, message, append(x.attrs(), slog.String(keyError, plain(err)))...)
}

// attrs are what every line about a request has.
func (x *exchange) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String(keyClient, x.r.RemoteAddr), slog.String(keyRequest, x.id), slog.String(keyOperation, x.name())}
	for _, a := range []slog.Attr{slog.String(keyBucket, x.target.Bucket), slog.String(keyKey, x.target.Key)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if x.client != nil {
		attrs = append(attrs, slog.String(keyAccessKey, x.client.AccessKey))
	}
	return attrs
}

// resource is the one that a refusal is about; "" if that is not known.
func (x *exchange) resource(e *refusal.Error) string {
	var refused *guard.RefusedError
	if errors.As(e.Cause, &refused) && refused.Token.Resource != "" {
		return refused.Token.Resource
	}
	return x.g.covered(x.target.Bucket, x.target.Key)
}

// plain is the text of an error without the queries of the URLs in it.
func plain(err error) string {
	text := err.Error()
	var at *url.Error
	if errors.As(err, &at) {
		path, _, _ := strings.Cut(at.URL, "?")
		text = strings.ReplaceAll(text, at.URL, path)
	}
	return text
}
