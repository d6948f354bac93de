package locks

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxSegmentLen bounds what Segment returns, in bytes.
const MaxSegmentLen = 255

// NewID returns a random id for a holder or an issuer: 26 characters of
// [A-Z2-7], at least 128 bits from crypto/rand.
func NewID() string { return rand.Text() }

// Segment returns the name of resource as one segment of a key: at most
// MaxSegmentLen bytes of [A-Za-z0-9_~.%=-], never starting with a dot, and a
// different one for each resource. Every other byte is percent-encoded; what
// gets too long that way becomes "sha256=" with the hash of the name in hex,
// which no encoded name can be, since "=" is encoded.
func Segment(resource string) string {
	const upperHex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(resource) {
		c := resource[i]
		if plain(c) || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	if b.Len() > MaxSegmentLen {
		sum := sha256.Sum256([]byte(resource))
		return "sha256=" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '~' || c == '-'
}
