package payload

import (
	"errors"
	"io"
	"sync"
)

// Body hands out what a request sends and remembers how far it came. It is not
// an io.Seeker, so that minio-go does not send it again.
//
// net/http may still read a body when the request has ended: stop it, before
// anything is concluded from how much was read, or anything else read from the
// same source.
type Body struct {
	r       io.Reader
	reading sync.Mutex // held by whoever reads r

	mu      sync.Mutex
	left    int64
	err     error // of r
	stopped bool
}

var errStopped = errors.New("request has ended")

// NewBody returns a body of size bytes that are read from r.
func NewBody(r io.Reader, size int64) *Body { return &Body{r: r, left: size} }

// Read reads as any io.Reader does, until the body is stopped.
func (b *Body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	left, err := b.state()
	if left == 0 || err != nil {
		return 0, err
	}
	n, err := b.r.Read(p[:min(int64(len(p)), left)])
	return b.took(n, err)
}

func (b *Body) state() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
		return b.left, errStopped
	case b.left == 0:
		return 0, io.EOF
	}
	return b.left, nil
}

func (b *Body) took(n int, err error) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped { // it has been concluded that this was not sent
		return 0, errStopped
	}
	b.left -= int64(n)
	if b.left == 0 {
		return n, nil
	}
	if err = Unexpected(err); err != nil {
		b.err = err
	}
	return n, err
}

// Stop ends the body: nothing more of it is sent. It returns how much was not,
// and the error of its source.
func (b *Body) Stop() (unread int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return b.left, b.err
}

// busy reports whether somebody is still reading the source of a body that was
// stopped: it may take as long as the source likes.
func (b *Body) busy() bool {
	if b.reading.TryLock() {
		b.reading.Unlock()
		return false
	}
	return true
}

// Wait waits until nobody reads the source, of which it is known that it does
// not take long.
func (b *Body) Wait() {
	b.reading.Lock()
	defer b.reading.Unlock()
}
