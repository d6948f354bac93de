package pgwire

import (
	"bytes"
	"encoding/binary"
)

// Fields of an ErrorResponse or NoticeResponse.
const (
	Severity = 'S'
	// SeverityCode is Severity, but never translated.
	SeverityCode = 'V'
	Code         = 'C'
	Message      = 'M'
	Detail       = 'D'
	Hint         = 'H'
	Where        = 'W'
	Routine      = 'R' // of the server's source, in no language
)

// Length returns the length of the body of the message whose header is at the
// start of b, and whether that length is possible.
func Length(b []byte) (n int, ok bool) {
	n = int(binary.BigEndian.Uint32(b[1:HeaderSize])) - 4
	return n, n >= 0 && n < 1<<30
}

// FieldOf returns a field of the body of an ErrorResponse, "" if it has none.
func FieldOf(body []byte, code byte) string {
	for len(body) > 1 {
		end := bytes.IndexByte(body[1:], 0)
		if end < 0 {
			break
		}
		if body[0] == code {
			return string(body[1 : 1+end])
		}
		body = body[end+2:]
	}
	return ""
}

// AppendErrorWithout appends an ErrorResponse with the body, but for one field.
func AppendErrorWithout(dst, body []byte, code byte) []byte {
	dst, start := begin(dst, 'E')
	for len(body) > 1 {
		end := bytes.IndexByte(body[1:], 0)
		if end < 0 {
			break
		}
		if body[0] != code {
			dst = append(dst, body[:end+2]...)
		}
		body = body[end+2:]
	}
	return finish(append(dst, 0), start)
}

// AppendErrorWith appends an ErrorResponse with the body, and more fields.
func AppendErrorWith(dst, body []byte, fields ...Field) []byte {
	dst, start := begin(dst, 'E')
	dst = append(dst, bytes.TrimRight(body, "\x00")...)
	dst = append(dst, 0)
	for _, f := range fields {
		dst = appendString(append(dst, f.Code), f.Text)
	}
	return finish(append(dst, 0), start)
}

// Row calls f with each value of the body of a DataRow; nil is NULL.
func Row(body []byte, f func(i int, value []byte)) {
	if len(body) < 2 {
		return
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	for i := range n {
		if len(body) < 4 {
			return
		}
		size := int(int32(binary.BigEndian.Uint32(body))) //nolint:gosec // -1 is NULL
		body = body[4:]
		if size < 0 {
			f(i, nil)
			continue
		}
		if size > len(body) {
			return
		}
		f(i, body[:size:size])
		body = body[size:]
	}
}
