package layout

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	// HeaderSize is how many bytes come before the payload of a live object.
	HeaderSize = 64
	// TombstoneSize is the size of the object that a deleted key keeps: a
	// header without its checksum. No live object is as small, so a listing can
	// tell the two.
	TombstoneSize = 60

	magic   = "\x89FTK\r\n" // like PNG's: no text, and broken by what breaks line ends
	version = 1
)

// Kind says what a header stands for.
type Kind byte

const (
	// Live: the payload follows.
	Live Kind = 'L'
	// Tombstone: the key was deleted.
	Tombstone Kind = 'T'
)

// Nonce is drawn anew for every write, so that no two writes are alike.
type Nonce [16]byte

// NewNonce draws a nonce.
func NewNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// Digest stands for a resource, an issuer or a holder in a header: the first 8
// bytes of its SHA-256.
type Digest [8]byte

// DigestOf returns the digest of a name, which may be empty.
func DigestOf(name string) (d Digest) {
	sum := sha256.Sum256([]byte(name))
	copy(d[:], sum[:])
	return d
}

// Header is what stands in front of a payload: who wrote it, under which
// number.
type Header struct {
	Kind Kind
	// Generation is that of the mark when the writer claimed.
	Generation uint32
	// Number is the writer's; above 0.
	Number int64
	Nonce  Nonce
	// Resource, Issuer and Holder are those of the writer's token.
	Resource, Issuer, Holder Digest
}

// Why the front of an object is no header.
var (
	// ErrBare: an object is not framed; it was there before, or somebody wrote
	// it past the fence.
	ErrBare = errors.New("object is not framed")
	// ErrDamaged: an object starts like a framed one and is none.
	ErrDamaged = errors.New("header of a framed object is damaged")
)

// Bytes returns the header as it is stored: 64 bytes if it is Live, 60 if it
// is a Tombstone.
func (h Header) Bytes() []byte {
	b := make([]byte, 0, HeaderSize)
	b = append(b, magic...)
	b = append(b, version, byte(h.Kind))
	b = binary.BigEndian.AppendUint32(b, h.Generation)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Number)) //nolint:gosec // above 0, see Parse
	b = append(b, h.Nonce[:]...)
	b = append(b, h.Resource[:]...)
	b = append(b, h.Issuer[:]...)
	b = append(b, h.Holder[:]...)
	if h.Kind == Tombstone {
		return b
	}
	return binary.BigEndian.AppendUint32(b, checksum(b))
}

// Parse reads the header of an object from its first bytes: HeaderSize of
// them, or all if the object is smaller. size is the object's. The error
// matches ErrBare or ErrDamaged.
func Parse(first []byte, size int64) (Header, error) {
	if int64(len(first)) != min(size, HeaderSize) {
		return Header{}, fmt.Errorf("%w: %d of its first bytes of %d", ErrDamaged, len(first), size)
	}
	if len(first) < len(magic) || string(first[:len(magic)]) != magic {
		return Header{}, ErrBare
	}
	if size < TombstoneSize {
		return Header{}, fmt.Errorf("%w: %d bytes", ErrDamaged, size)
	}
	if first[6] != version {
		return Header{}, fmt.Errorf("%w: version %d", ErrDamaged, first[6])
	}
	h := Header{
		Kind:       Kind(first[7]),
		Generation: binary.BigEndian.Uint32(first[8:]),
		Number:     int64(binary.BigEndian.Uint64(first[12:])), //nolint:gosec // looked at below
		Nonce:      Nonce(first[20:36]),
		Resource:   Digest(first[36:44]),
		Issuer:     Digest(first[44:52]),
		Holder:     Digest(first[52:60]),
	}
	switch {
	case h.Number <= 0:
		return Header{}, fmt.Errorf("%w: number %d", ErrDamaged, h.Number)
	case h.Kind == Tombstone && size == TombstoneSize:
		return h, nil
	case h.Kind != Live || size < HeaderSize:
		return Header{}, fmt.Errorf("%w: kind %q in %d bytes", ErrDamaged, byte(h.Kind), size)
	case binary.BigEndian.Uint32(first[60:]) != checksum(first[:60]):
		return Header{}, fmt.Errorf("%w: checksum", ErrDamaged)
	}
	return h, nil
}

func checksum(b []byte) uint32 {
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}
