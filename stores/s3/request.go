package s3store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// sending watches one request that writes, to know afterwards whether it can
// have been carried out.
type sending struct {
	asked, got atomic.Int32 // connections asked for, and had
}

// watch returns a context that tells about the request that is sent under it. A
// request with a body of ours is sent once: minio-go cannot rewind it.
func watch(ctx context.Context) (context.Context, *sending) {
	return watching(ctx, func() {})
}

var errTwice = errors.New("the client wanted to send a write again")

// once is watch for a request whose body is minio-go's: it ends when a
// connection is asked for the second time, to send it again or for new
// credentials.
func once(ctx context.Context) (context.Context, *sending, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, w := watching(ctx, func() { cancel(errTwice) })
	return ctx, w, func() { cancel(nil) }
}

func watching(ctx context.Context, twice func()) (context.Context, *sending) {
	w := &sending{}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if w.asked.Add(1) > 1 {
				twice()
			}
		},
		GotConn: func(httptrace.GotConnInfo) { w.got.Add(1) },
	}), w
}

// reply tells from the error that a request ended with whether it was carried
// out. unread says that not all of its body was read, so that the server cannot
// have had the whole.
func (w *sending) reply(err error, unread bool) layout.Reply {
	r, answered := responseOf(err)
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

// pause waits before something is tried again, longer each time, up to a
// second.
func pause(ctx context.Context, try int) error {
	limit := min(10*time.Millisecond<<min(try, 7), time.Second)
	timer := time.NewTimer(rand.N(limit)) //nolint:gosec // when, not what
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settling returns a context for what is still to be done after a write failed,
// even because ctx has ended.
func (s *Store) settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.config.SettleTime)
}
