// Package request tells what became of one request to a store, and whether it
// may be sent again.
package request

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Sending watches one request that writes, to know afterwards whether it can
// have been carried out.
type Sending struct {
	asked, got atomic.Int32 // connections asked for, and had
}

// Watch returns a context that tells about the request that is sent under it. A
// request with a body of ours is sent once: minio-go cannot rewind it.
func Watch(ctx context.Context) (context.Context, *Sending) {
	return watching(ctx, func() {})
}

var errTwice = errors.New("the client wanted to send a write again")

// Once is Watch for a request whose body is minio-go's: it ends when a
// connection is asked for the second time, to send it again or for new
// credentials. It may have left by then, where a connection was idle: it must be
// one that cannot be carried out twice.
func Once(ctx context.Context) (context.Context, *Sending, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, w := watching(ctx, func() { cancel(errTwice) })
	return ctx, w, func() { cancel(nil) }
}

func watching(ctx context.Context, twice func()) (context.Context, *Sending) {
	w := &Sending{}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if w.asked.Add(1) > 1 {
				twice()
			}
		},
		GotConn: func(httptrace.GotConnInfo) { w.got.Add(1) },
	}), w
}

// Asked returns how often a connection was asked for so far: once for each
// request, if nothing is sent again.
func (w *Sending) Asked() int { return int(w.asked.Load()) }

// Reply tells from the error that a request ended with whether it was carried
// out. Unread says that not all of its body was read, so that the server cannot
// have had the whole.
func (w *Sending) Reply(err error, unread bool) layout.Reply {
	r, answered := ResponseOf(err)
	switch asked, got := w.asked.Load(), w.got.Load(); {
	case err == nil:
		return layout.Accepted
	case unread, asked == 1 && got == 0: // not sent, or not all of it
		return layout.Denied
	case asked != 1 || got != 1: // by a transport that sends again, or does not tell
		return layout.Lost
	case answered && final(r.StatusCode):
		return layout.Denied
	}
	return layout.Lost
}

// errUnfounded: what was not sent nobody has verified either.
var errUnfounded = errors.New("the server acknowledges a body of which it has not got all")

// Outcome is Reply to a request with a body of ours, with the error that it ended with. One
// that is acknowledged before all of its body was read has one too: it is open what the
// server has made of it.
func (w *Sending) Outcome(err error, unread bool) (layout.Reply, error) {
	if err == nil && unread {
		return layout.Lost, errUnfounded
	}
	return w.Reply(err, unread), err
}

// final reports whether a server that answers with an error of this status has
// not carried out the request and will not. A 200 that holds an error is not
// final: what failed may be the end of it.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, 499: // a proxy between gave up waiting
		return false
	case http.StatusNotImplemented:
		return true
	}
	return status >= 300 && status < 500
}

// Condition makes a write name the state that it is meant for.
func Condition(opts *minio.PutObjectOptions, c layout.Condition) {
	if c.ETag == "" {
		opts.SetMatchETagExcept("*")
		return
	}
	opts.SetMatchETag(c.ETag)
}
