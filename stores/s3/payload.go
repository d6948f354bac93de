package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// payload is what a caller gives to be written.
type payload struct {
	size int64 // -1 if it is not known
	// at is nil if it can only be read from front to back.
	at   io.ReaderAt
	base int64 // where it begins in at, or in seek

	// One of these if at is nil.
	seek io.ReadSeeker
	once io.Reader
	open func(ctx context.Context) (io.ReadCloser, error)

	used bool
}

// smallPayload is the size in bytes up to which a payload that can be read only
// once is kept in memory, to be sent again if need be.
const smallPayload = 1 << 20

var errReadOnce = errors.New("payload can be read only once")

func payloadOf(r io.Reader, size int64) (*payload, error) {
	if size < -1 {
		return nil, fmt.Errorf("size of payload is %d", size)
	}
	if r == nil {
		r = bytes.NewReader(nil)
	}
	p := &payload{size: size, once: r}
	seeker, ok := r.(io.ReadSeeker)
	if ok {
		if base, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			p.base, p.seek, p.once = base, seeker, nil
		}
	}
	if p.seek == nil {
		return p, p.keep()
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

// keep takes a small payload into memory.
func (p *payload) keep() error {
	if p.size < 0 || p.size > smallPayload {
		return nil
	}
	return p.load()
}

// load takes a payload of known size into memory.
func (p *payload) load() error {
	if p.at != nil {
		return nil
	}
	r, err := p.reader(context.Background())
	if err != nil {
		return err
	}
	data := make([]byte, p.size)
	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("read payload: %w", unexpected(err))
	}
	*p = payload{size: p.size, at: bytes.NewReader(data)}
	return nil
}

// unexpected makes an error of an end that comes too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// reader returns the whole payload from its front.
func (p *payload) reader(ctx context.Context) (io.Reader, error) {
	used := p.used
	p.used = true
	switch {
	case p.at != nil:
		return io.NewSectionReader(p.at, p.base, p.size), nil
	case p.open != nil:
		return p.open(ctx)
	case p.seek != nil:
		if used {
			if _, err := p.seek.Seek(p.base, io.SeekStart); err != nil {
				return nil, fmt.Errorf("read payload again: %w", err)
			}
		}
		return p.seek, nil
	case used:
		return nil, errReadOnce
	}
	return p.once, nil
}

// left ends the reading of the payload by a request that has ended.
func (p *payload) left(b *body) {
	switch {
	case p.at != nil:
		b.wait() // memory or a file, which is the caller's again
	case p.seek != nil && b.busy():
		p.seek = nil // it cannot go back while somebody reads it
	}
}

// again reports whether the payload can be read from its front.
func (p *payload) again() bool {
	return !p.used || p.at != nil || p.seek != nil || p.open != nil
}

// measure reads a payload of unknown size until its end, or until it fills a
// part of an upload: in the first case its size is known and it is in memory,
// in the other it goes on behind what it returns, a whole part with room for
// the header in front.
func (p *payload) measure(ctx context.Context, partSize int64) (part []byte, err error) {
	r, err := p.reader(ctx)
	if err != nil {
		return nil, err
	}
	part = make([]byte, min(64<<10, partSize))
	for n := layout.HeaderSize; ; {
		read, err := io.ReadFull(r, part[n:])
		n += read
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			data := part[layout.HeaderSize:n]
			*p = payload{size: int64(len(data)), at: bytes.NewReader(data)}
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
