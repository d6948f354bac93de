package http1

import (
	"io"
	"sync/atomic"
)

// body is that of a request. With the last of it comes io.EOF.
type body struct {
	src    io.Reader
	size   int64       // of all of it, as it was told; < 0: it is in chunks
	left   int64       // of it; < 0: src has it to its end
	twice  bool        // its length was told twice: nobody knows what is behind it
	before func()      // the first Read; nil: nothing
	whole  atomic.Bool // it was read to its end
	failed atomic.Bool // a Read has
}

func (b *body) Read(p []byte) (int, error) {
	if b.whole.Load() {
		return 0, io.EOF
	}
	if b.before != nil {
		b.before()
		b.before = nil
	}
	if b.left < 0 {
		n, err := b.src.Read(p)
		switch err {
		case nil:
		case io.EOF:
			b.whole.Store(true)
		default:
			b.failed.Store(true)
		}
		return n, err
	}
	n, err := b.src.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		b.whole.Store(true)
		return n, io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		b.failed.Store(true)
	}
	return n, err
}

// Close does nothing: what is left of it is the connection's.
func (b *body) Close() error { return nil }

// mayCome reports whether what is left of it is short, as far as it was told, and may
// come yet.
func (b *body) mayCome() bool { return b.size >= 0 && b.size <= maxSkip && !b.failed.Load() }
