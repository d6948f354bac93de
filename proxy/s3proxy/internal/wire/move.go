package wire

import (
	"io"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/lane"
)

const (
	// pieceSize is how much of a body has to make it in the time for which it may
	// make no progress, in bytes.
	pieceSize = 128 << 10
	// fewBytes are not worth asking the kernel for: they go out with the header.
	fewBytes = 8 << 10
	// longPiece is that of a body of which the last piece took less than quick: the
	// kernel moves more of it at once.
	longPiece = 1 << 20
	quick     = time.Second
)

// Move sends n bytes of b. Those that have not left the store's connection yet the
// kernel moves to the client's, unless one of them has TLS. The others go through
// buffer.
func (a *Answer) Move(b *lane.Body, n int64, buffer []byte) error {
	if n <= fewBytes {
		buffer = buffer[:n]
		if _, err := io.ReadFull(b, buffer); err != nil {
			return err
		}
		_, err := a.Write(buffer)
		return err
	}
	for piece := int64(pieceSize); n > 0; {
		begun := time.Now()
		moved, err := a.piece(b, min(n, piece), buffer)
		if err != nil {
			return err
		}
		n -= moved
		if piece = pieceSize; time.Since(begun) < quick {
			piece = longPiece
		}
	}
	return nil
}

func (a *Answer) piece(b *lane.Body, n int64, buffer []byte) (int64, error) {
	from := b.Direct(n, a.pace.limit)
	if !a.Kernel() || from == nil {
		read, err := b.Read(buffer[:min(n, int64(len(buffer)))])
		if read > 0 {
			if _, err := a.Write(buffer[:read]); err != nil {
				return 0, err
			}
			return int64(read), nil
		}
		if err == io.EOF { //nolint:errorlint // as Read returns it
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	begun := a.extend()
	w := a.watch()
	moved, err := a.ReadFrom(from)
	a.pace.took(int(moved), begun.Add(w.end()))
	a.count.Add(float64(moved))
	if err == nil && moved == 0 {
		err = io.ErrUnexpectedEOF
	}
	if end := b.Took(moved, err); err == nil {
		err = end
	}
	return moved, err
}
