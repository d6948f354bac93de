package http1

import (
	"io"
	"sync/atomic"
)

// body is that of a request. With the last of it comes io.EOF.
type body struct {
	src    io.Reader
	left   int64       // of it; < 0: src has it to its end
	twice  bool        // its length was told twice: nobody knows what is behind it
	before func()      // the first Read; nil: nothing
	whole  atomic.Bool // it was read to its end
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
		b.whole.Store(err == io.EOF)
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
	return n, err
}

// Close does nothing: what is left of it is the connection's.
func (b *body) Close() error { return nil }
