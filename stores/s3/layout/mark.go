package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

// reserved is where the fence keeps what is its own in a bucket.
const reserved = ".fence/"

// Reserved reports whether key is the fence's own, and nobody else's to read,
// write or list. That counts for whatever a store that keeps objects as files
// takes for such a key: to versitygw "/a", "./a" and "b/../a" are one.
func Reserved(key string) bool {
	as := path.Clean("/" + key)
	if strings.HasSuffix(key, "/") {
		as += "/"
	}
	return strings.HasPrefix(key, reserved) || strings.HasPrefix(as, "/"+reserved)
}

// HasReserved reports whether keys of the fence's own start with prefix.
func HasReserved(prefix string) bool { return strings.HasPrefix(reserved, prefix) || Reserved(prefix) }

// BehindReserved is where a listing that has come to name goes on: behind all keys of
// the fence's own, if it is among them.
func BehindReserved(name string) string {
	if strings.HasPrefix(name, reserved) {
		return reserved + "\U0010FFFF"
	}
	return name
}

// MarkKey returns the key of the mark object of resource.
func MarkKey(resource string) string {
	sum := sha256.Sum256([]byte(resource))
	return reserved + "marks/" + hex.EncodeToString(sum[:])
}

// MaxMarkSize bounds a mark object, in bytes.
const MaxMarkSize = 64 << 10

// MarkObject is what a mark object holds.
type MarkObject struct {
	// Resource is whose mark it is.
	Resource string
	// Mark is the zero Mark if nobody has claimed the resource.
	Mark guard.Mark
	// Former are the issuers that the resource had before, oldest first. None
	// of them may be adopted again: its old tokens would come back with it.
	Former []string
	// Nonce makes every version of the object differ from every other.
	Nonce Nonce
}

// markJSON is the text of a mark object. Numbers are strings: JSON's are not
// safe above 2^53.
type markJSON struct {
	V          int      `json:"v"`
	Resource   string   `json:"resource"`
	Issuer     string   `json:"issuer"`
	Generation string   `json:"generation"`
	Writer     string   `json:"writer"`
	Holder     string   `json:"holder"`
	Reader     string   `json:"reader"`
	Former     []string `json:"former,omitempty"`
	Nonce      string   `json:"nonce"`
}

// Bytes returns the object as it is stored.
func (o MarkObject) Bytes() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(markJSON{ //nolint:errchkjson // strings can be encoded
		V: version, Resource: o.Resource, Issuer: o.Mark.Issuer,
		Generation: strconv.FormatUint(uint64(o.Mark.Generation), 10),
		Writer:     strconv.FormatInt(o.Mark.Writer, 10), Holder: o.Mark.Holder,
		Reader: strconv.FormatInt(o.Mark.Reader, 10),
		Former: o.Former, Nonce: hex.EncodeToString(o.Nonce[:]),
	})
	return b.Bytes()
}

// ErrBadMark says that a mark object cannot be read. Nothing is admitted by it.
var ErrBadMark = errors.New("mark object is damaged")

// ParseMark reads the mark object of resource. The error matches ErrBadMark.
func ParseMark(data []byte, resource string) (MarkObject, error) {
	var text markJSON
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&text); err != nil {
		return MarkObject{}, fmt.Errorf("%w: %w", ErrBadMark, err)
	}
	if d.More() {
		return MarkObject{}, fmt.Errorf("%w: something behind it", ErrBadMark)
	}
	generation, err1 := decimal(text.Generation, 32)
	writer, err2 := decimal(text.Writer, 63)
	reader, err3 := decimal(text.Reader, 63)
	nonce, err4 := hex.DecodeString(text.Nonce)
	o := MarkObject{
		Resource: text.Resource, Former: text.Former,
		Mark: guard.Mark{
			Issuer: text.Issuer, Generation: uint32(generation), //nolint:gosec // 32 bits
			Writer: int64(writer), Holder: text.Holder, Reader: int64(reader), //nolint:gosec // 63 bits
		},
	}
	if err := errors.Join(err1, err2, err3, err4, guard.ValidateID(text.Issuer), guard.ValidateID(text.Holder)); err != nil {
		return MarkObject{}, fmt.Errorf("%w: %w", ErrBadMark, err)
	}
	switch {
	case text.V != version:
		return MarkObject{}, fmt.Errorf("%w: version %d", ErrBadMark, text.V)
	case text.Resource != resource:
		return MarkObject{}, fmt.Errorf("%w: it is that of %q", ErrBadMark, text.Resource)
	case !o.Mark.Touched():
		return MarkObject{}, fmt.Errorf("%w: nobody has claimed it", ErrBadMark)
	case copy(o.Nonce[:], nonce) != len(o.Nonce) || len(nonce) != len(o.Nonce):
		return MarkObject{}, fmt.Errorf("%w: nonce of %d bytes", ErrBadMark, len(nonce))
	}
	return o, nil
}

// decimal reads a decimal of so many bits at most that is written in the one way
// in which it can be.
func decimal(s string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	if err == nil && strconv.FormatUint(n, 10) != s {
		err = fmt.Errorf("number %q is not plain", s)
	}
	return n, err
}

// Claim returns the object after a claim of t, with a new nonce, and whether
// that differs from o. A refusal is guard.Admit's.
func (o MarkObject) Claim(t guard.Token) (after MarkObject, changed bool, err error) {
	mark, err := guard.Admit(o.Mark, t)
	if err != nil || mark == o.Mark {
		return o, false, err
	}
	return MarkObject{Resource: t.Resource, Mark: mark, Former: o.Former, Nonce: NewNonce()}, true, nil
}

// ErrIssuerUsed says that an adoption names an issuer that the resource has, or had
// before. Give the lock service a new one first.
var ErrIssuerUsed = errors.New("issuer was used before")

// Adopt returns the object after an adoption by issuer: the next generation,
// in which numbers start again.
func (o MarkObject) Adopt(issuer string) (MarkObject, error) {
	if err := guard.ValidateID(issuer); err != nil {
		return o, err
	}
	if o.Mark.Touched() && o.Mark.Issuer == issuer || slices.Contains(o.Former, issuer) {
		return o, fmt.Errorf("%w: %q", ErrIssuerUsed, issuer)
	}
	if o.Mark.Generation == ^uint32(0) {
		return o, errors.New("generations are used up")
	}
	former := slices.Clone(o.Former)
	if o.Mark.Touched() {
		former = append(former, o.Mark.Issuer)
	}
	return MarkObject{
		Resource: o.Resource, Mark: guard.Mark{Issuer: issuer, Generation: o.Mark.Generation + 1},
		Former: former, Nonce: NewNonce(),
	}, nil
}
