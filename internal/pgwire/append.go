package pgwire

import "encoding/binary"

// HeaderSize is the length of the type and the length field of a message.
const HeaderSize = 5

// begin starts a message; finish fills in its length.
func begin(dst []byte, kind byte) (out []byte, start int) {
	return append(dst, kind, 0, 0, 0, 0), len(dst)
}

func finish(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1)) //nolint:gosec // messages of ours are short
	return dst
}

func appendString(dst []byte, s string) []byte { return append(append(dst, s...), 0) }

// AppendParse appends Parse of a statement with parameters of the given types.
func AppendParse(dst []byte, name, sql string, types ...uint32) []byte {
	dst, start := begin(dst, 'P')
	dst = appendString(appendString(dst, name), sql)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(types))) //nolint:gosec // a few
	for _, oid := range types {
		dst = binary.BigEndian.AppendUint32(dst, oid)
	}
	return finish(dst, start)
}

// AppendBind appends Bind of a portal to a statement with parameters in text
// form, nil for NULL; results come in text form.
func AppendBind(dst []byte, portal, statement string, parameters ...[]byte) []byte {
	dst, start := begin(dst, 'B')
	dst = appendString(appendString(dst, portal), statement)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(parameters))) //nolint:gosec // a few
	for _, p := range parameters {
		if p == nil {
			dst = binary.BigEndian.AppendUint32(dst, 1<<32-1)
			continue
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(p))) //nolint:gosec // a token
		dst = append(dst, p...)
	}
	dst = binary.BigEndian.AppendUint16(dst, 0)
	return finish(dst, start)
}

// AppendExecute appends Execute of all of a portal.
func AppendExecute(dst []byte, portal string) []byte {
	dst, start := begin(dst, 'E')
	dst = binary.BigEndian.AppendUint32(appendString(dst, portal), 0)
	return finish(dst, start)
}

// AppendClosePortal appends Close of a portal.
func AppendClosePortal(dst []byte, portal string) []byte {
	dst, start := begin(dst, 'C')
	return finish(appendString(append(dst, 'P'), portal), start)
}

// AppendCloseStatement appends Close of a prepared statement.
func AppendCloseStatement(dst []byte, name string) []byte {
	dst, start := begin(dst, 'C')
	return finish(appendString(append(dst, 'S'), name), start)
}

// AppendSync appends Sync.
func AppendSync(dst []byte) []byte { return append(dst, 'S', 0, 0, 0, 4) }

// Field is a field of an ErrorResponse or NoticeResponse.
type Field struct {
	Code byte
	Text string
}

// AppendError appends an ErrorResponse with the fields that have a text.
func AppendError(dst []byte, fields ...Field) []byte {
	dst, start := begin(dst, 'E')
	for _, f := range fields {
		if f.Text != "" {
			dst = appendString(append(dst, f.Code), f.Text)
		}
	}
	return finish(append(dst, 0), start)
}
