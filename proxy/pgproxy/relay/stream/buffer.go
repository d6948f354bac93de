package stream

import "sync"

// BufferSize is how much is read at once.
const BufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { //nolint:gochecknoglobals // sessions of all servers share what none of them needs now
	b := make([]byte, BufferSize)
	return &b
}}

// GetBuffer takes a buffer of BufferSize out of the pool of all streams.
func GetBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer gives it back.
func PutBuffer(b *[]byte) { buffers.Put(b) }
