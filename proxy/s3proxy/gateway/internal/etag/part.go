package etag

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
)

// Sum is the checksum that a part was verified by when it came.
type Sum struct {
	Type minio.ChecksumType
	// Value is in base64, as S3 writes it.
	Value string
	// Size is that of the part's payload in bytes.
	Size int64
}

// types are the checksums that a part can be verified by.
var types = [...]minio.ChecksumType{ //nolint:gochecknoglobals // a constant
	minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumCRC64NVME, minio.ChecksumSHA1, minio.ChecksumSHA256,
}

// TypeOf returns the checksum of which S3 writes the name in upper case; false if a
// part cannot have it.
func TypeOf(name string) (minio.ChecksumType, bool) {
	for _, t := range types {
		if t.String() == name {
			return t, true
		}
	}
	return minio.ChecksumNone, false
}

// Part is the ETag of a part as clients see it. Only part 1 has a header in front,
// so that the others' may be the MD5 that it looks like.
func Part(number int, stored string) string {
	if number == 1 {
		return Shown(stored)
	}
	return stored
}

// Verified is the ETag of a part that was verified by checksums, as clients see it:
//
//	the store's ETag - name of the checksum - size - checksum, both in hex
//
// The part's client brings it along when it completes the upload. So whichever
// proxy that is made through can tell what the checksum was, and none keeps it.
// Without a checksum, of which there is one at most, it is Part. They are given by
// the names of their headers.
func Verified(number int, stored string, sums map[string]string, size int64) string {
	for _, t := range types {
		sum, err := base64.StdEncoding.DecodeString(sums[t.Key()])
		if err == nil && len(sum) == t.RawByteLen() {
			return strings.Join([]string{stored, strings.ToLower(t.String()), strconv.FormatInt(size, 16), hex.EncodeToString(sum)}, "-")
		}
	}
	return Part(number, stored)
}

// NamedPart is the store's ETag for that of a part, which a client names without quotes,
// and the checksum that the part was verified by, if the ETag tells it.
func NamedPart(number int, named string) (stored string, sum Sum, told bool) {
	if stored, sum, told = open(named); told {
		return stored, sum, true
	}
	if number == 1 {
		named = Named(named)
	}
	return named, Sum{}, false
}

func open(named string) (stored string, sum Sum, ok bool) {
	fields := strings.Split(named, "-")
	if len(fields) < 4 {
		return "", Sum{}, false
	}
	at := len(fields) - 3
	if sum.Type, ok = TypeOf(strings.ToUpper(fields[at])); !ok {
		return "", Sum{}, false
	}
	size, err := strconv.ParseUint(fields[at+1], 16, 63)
	raw, flaw := hex.DecodeString(fields[at+2])
	if err != nil || flaw != nil || len(raw) != sum.Type.RawByteLen() {
		return "", Sum{}, false
	}
	sum.Size, sum.Value = int64(size), base64.StdEncoding.EncodeToString(raw)
	return strings.Join(fields[:at], "-"), sum, true
}
