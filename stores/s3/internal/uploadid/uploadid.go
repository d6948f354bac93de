// Package uploadid seals what every process must know of an upload into the id
// that its client is given.
//
//	base64url( 1 ‖ header, 64 bytes ‖ the store's id ‖ HMAC-SHA-256, 16 bytes )
//	base64url( 2 ‖ the store's id ‖ HMAC-SHA-256, 16 bytes )
//
// The header is the one that stands in front of the object once the upload is
// completed. The HMAC is over bucket, key and all before it.
package uploadid

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

const (
	begun  = 1
	listed = 2

	macSize = 16
)

// ID is what an id holds.
type ID struct {
	// Header is the object's; the zero Header in an id from a list.
	Header layout.Header
	// Upstream is the id that the store has given the upload.
	Upstream string
}

// Listed reports whether the id is from a list: it does not tell whose upload
// it is.
func (id ID) Listed() bool { return id.Header == layout.Header{} }

// ErrBad says that an id was not sealed under this key for this object.
var ErrBad = errors.New("upload id is not one of ours for this key")

// Seal returns the text of id for the object at key in bucket.
func Seal(secret []byte, bucket, key string, id ID) string {
	b := make([]byte, 0, 1+layout.HeaderSize+len(id.Upstream)+macSize)
	if id.Listed() {
		b = append(b, listed)
	} else {
		b = append(append(b, begun), id.Header.Bytes()...)
	}
	b = append(b, id.Upstream...)
	b = append(b, sum(secret, bucket, key, b)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Open returns what is sealed in text; ErrBad if it is not for that object.
func Open(secret []byte, bucket, key, text string) (ID, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= 1+macSize || strings.ContainsAny(text, "\r\n") { // those base64 passes over
		return ID{}, ErrBad
	}
	b, mac := b[:len(b)-macSize], b[len(b)-macSize:]
	if !hmac.Equal(mac, sum(secret, bucket, key, b)) {
		return ID{}, ErrBad
	}
	kind, rest := b[0], b[1:]
	switch {
	case kind == listed:
		return ID{Upstream: string(rest)}, nil
	case kind != begun || len(rest) <= layout.HeaderSize:
		return ID{}, ErrBad
	}
	h, err := layout.Parse(rest[:layout.HeaderSize], layout.HeaderSize)
	if err != nil {
		return ID{}, ErrBad
	}
	return ID{Header: h, Upstream: string(rest[layout.HeaderSize:])}, nil
}

func sum(secret []byte, bucket, key string, b []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, s := range []string{"fenceproxy upload id", bucket, key} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		mac.Write(n[:])
		mac.Write([]byte(s))
	}
	mac.Write(b)
	return mac.Sum(nil)[:macSize]
}
