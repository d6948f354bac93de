package parts

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// Memory is taken as bytes come, and not for a part or a size that was announced.
func TestFill(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789"), 1<<20)
	for _, c := range []struct {
		have       int
		size, left int64
		want       int
		err        error
	}{
		{10, 5 << 30, 5 << 40, 10, io.ErrUnexpectedEOF},
		{10, 5 << 30, -1, 10, nil},
		{0, 5 << 30, -1, 0, nil},
		{0, 5 << 30, 0, 0, nil},
		{100, 40, -1, 40, nil},
		{100, 1000, 30, 30, nil},
		{1 << 20, 1 << 19, 1 << 30, 1 << 19, nil},
		{10 << 20, 5 << 30, 10 << 20, 10 << 20, nil},
	} {
		for front := range 2 {
			size := c.size + int64(front)
			part, err := fill(iotest.HalfReader(bytes.NewReader(data[:c.have])), []byte("f")[:front], size, c.left)
			if !errors.Is(err, c.err) || (c.err == nil) != (err == nil) || string(part) != "f"[:front]+string(data[:c.want]) {
				t.Errorf("%+v, %d in front: %d bytes, %v", c, front, len(part), err)
			}
			if most := max(4*len(part), firstRoom); cap(part) > most {
				t.Errorf("%+v: room for %d bytes", c, cap(part))
			}
		}
	}
}
