package s3link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Held is a request that the link has taken, or will take, and keeps.
type Held struct {
	link    *Link
	taken   chan struct{}
	abandon chan struct{}

	// Set before taken is closed.
	request *http.Request
	body    []byte
}

// Hold takes the n-th matching request whole and keeps it from the server until
// Deliver, however long after its client has given up. The client gets no
// answer; it waits until it gives up by itself or Abandon is called.
func (l *Link) Hold(match func(Request) bool, n int) *Held {
	h := &Held{link: l, taken: make(chan struct{}), abandon: make(chan struct{})}
	l.add(match, n, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			cut() // the client gave up half-way: there is nothing to deliver
		}
		h.body = body
		// The request's own context ends with its client.
		h.request = r.WithContext(context.WithoutCancel(r.Context()))
		close(h.taken)
		select {
		case <-h.abandon:
		case <-r.Context().Done():
		case <-l.ending:
		}
		cut()
	})
	return h
}

// Taken is closed when the link has the whole request.
func (h *Held) Taken() <-chan struct{} { return h.taken }

// Abandon cuts the client's connection. Call it once, if at all.
func (h *Held) Abandon() { close(h.abandon) }

// patience is how long Deliver waits for a request that does not come.
const patience = time.Minute

// Deliver waits for the request and sends it to the server. It returns the
// server's status and answer; call it as often as you like, as a network that
// repeats what it carries.
func (h *Held) Deliver(ctx context.Context) (status int, answer string, err error) {
	select {
	case <-h.taken:
	case <-ctx.Done():
		return 0, "", context.Cause(ctx)
	case <-h.link.ending:
		return 0, "", errors.New("the link has ended")
	case <-time.After(patience):
		return 0, "", fmt.Errorf("no such request came within %v", patience)
	}
	res, err := h.link.send(h.request.WithContext(ctx), bytes.NewReader(h.body))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}
