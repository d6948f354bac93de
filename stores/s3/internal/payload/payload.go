// Package payload reads what a caller gives to be written, and knows whether it
// can be read again.
package payload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
)

// Payload is what a caller gives to be written. It is for one write at a time.
type Payload struct {
	size int64
	// at is nil if it can only be read from front to back.
	at   io.ReaderAt
	base int64 // where it begins in at, or in seek

	// One of these if at is nil.
	seek io.ReadSeeker
	once io.Reader
	open func(ctx context.Context) (io.ReadCloser, error)

	used bool
}

// Small is the size in bytes up to which a payload that can be read only
// once is kept in memory, to be sent again if need be.
const Small = 1 << 20

var errReadOnce = errors.New("payload can be read only once")

// Of returns a payload of size bytes that is to be read from r, -1 if it is not known.
func Of(r io.Reader, size int64) (*Payload, error) {
	if size < -1 {
		return nil, fmt.Errorf("size of payload is %d", size)
	}
	if r == nil {
		r = bytes.NewReader(nil)
	}
	p := &Payload{size: size, once: r}
	seeker, ok := r.(io.ReadSeeker)
	if ok {
		if base, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			p.base, p.seek, p.once = base, seeker, nil
		}
	}
	if p.seek == nil {
		return p, nil
	}
	if size < 0 {
		end, err := p.seek.Seek(0, io.SeekEnd)
		if err == nil {
			_, err = p.seek.Seek(p.base, io.SeekStart)
		}
		if err != nil {
			return nil, fmt.Errorf("read payload: %w", err)
		}
		p.size = max(end-p.base, 0)
	}
	// minio.Object reads at one place at a time, and asks anew for another.
	if _, object := r.(*minio.Object); !object {
		p.at, _ = r.(io.ReaderAt)
	}
	return p, nil
}

// From returns a payload of size bytes that open opens, each time that it is to be
// read.
func From(size int64, open func(ctx context.Context) (io.ReadCloser, error)) *Payload {
	return &Payload{size: size, open: open}
}

// At returns a payload of the size bytes of r from base on.
func At(r io.ReaderAt, base, size int64) *Payload { return &Payload{size: size, at: r, base: base} }

// Empty returns a payload of no bytes.
func Empty() *Payload { return At(bytes.NewReader(nil), 0, 0) }

// Size returns how many bytes there are, -1 if it is not known.
func (p *Payload) Size() int64 { return p.size }

// Section returns a reader of the whole payload that others do not disturb; nil
// if it can only be read from front to back.
func (p *Payload) Section() *io.SectionReader {
	if p.at == nil {
		return nil
	}
	return io.NewSectionReader(p.at, p.base, p.size)
}

// Keep takes a small payload that can be read only once into memory, so that it can
// be sent again. Until then nothing is read of it.
func (p *Payload) Keep() error {
	if p.once == nil || p.size < 0 || p.size > Small {
		return nil
	}
	return p.Load()
}

// Load takes a payload of known size into memory.
func (p *Payload) Load() error {
	if p.at != nil {
		return nil
	}
	r, err := p.Reader(context.Background())
	if err != nil {
		return err
	}
	defer r.Close()
	data := make([]byte, p.size)
	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("read payload: %w", Unexpected(err))
	}
	*p = Payload{size: p.size, at: bytes.NewReader(data)}
	return nil
}

// Unexpected makes an error of an end that comes too early.
func Unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Reader returns the whole payload from its front. Close it, which closes nothing
// of the caller's.
func (p *Payload) Reader(ctx context.Context) (io.ReadCloser, error) {
	used := p.used
	p.used = true
	switch {
	case p.at != nil:
		return io.NopCloser(p.Section()), nil
	case p.open != nil:
		return p.open(ctx)
	case p.seek != nil:
		if used {
			if _, err := p.seek.Seek(p.base, io.SeekStart); err != nil {
				return nil, fmt.Errorf("read payload again: %w", err)
			}
		}
		return io.NopCloser(p.seek), nil
	case used:
		return nil, errReadOnce
	}
	return io.NopCloser(p.once), nil
}

// Left ends the reading of the payload by a request that has ended.
func (p *Payload) Left(b *Body) {
	switch {
	case p.at != nil:
		b.Wait() // memory or a file, which is the caller's again
	case p.seek != nil && b.busy():
		p.seek = nil // it cannot go back while somebody reads it
	}
}

// Again reports whether the payload can be read from its front.
func (p *Payload) Again() bool {
	return !p.used || p.at != nil || p.seek != nil || p.open != nil
}

// Measure reads a payload of unknown size until its end, or until it fills a
// part of an upload with so many bytes in front: in the first case its size is
// known and it is in memory, in the other it goes on behind what it returns, a
// whole part with room for what comes in front.
func (p *Payload) Measure(ctx context.Context, partSize int64, front int) (part []byte, err error) {
	r, err := p.Reader(ctx)
	if err != nil {
		return nil, err
	}
	part = make([]byte, min(64<<10, partSize))
	for n := front; ; {
		read, err := io.ReadFull(r, part[n:])
		n += read
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			data := part[front:n]
			*p = Payload{size: int64(len(data)), at: bytes.NewReader(data)}
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read payload: %w", err)
		case int64(len(part)) == partSize:
			return part, nil
		}
		grown := make([]byte, min(8*int64(len(part)), partSize))
		copy(grown, part)
		part = grown
	}
}

// Rest returns what comes behind the part that Measure has returned.
func (p *Payload) Rest() (io.ReadCloser, error) { return io.NopCloser(p.once), nil }
