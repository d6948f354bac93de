package sigv4

import (
	"crypto/md5"  //nolint:gosec // Content-MD5 is a checksum
	"crypto/sha1" //nolint:gosec // x-amz-checksum-sha1 is one too
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"net/http"
	"strings"

	"github.com/minio/crc64nvme"
)

const (
	checksumPrefix = "x-amz-checksum-"
	trailerHeader  = "x-amz-trailer"
)

// newHash makes the hash of a checksum, by the name that follows the prefix.
func newHash(name string) hash.Hash {
	switch name {
	case "crc32":
		return crc32.NewIEEE()
	case "crc32c":
		return crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case "crc64nvme":
		return crc64nvme.New()
	case "sha1":
		return sha1.New() //nolint:gosec // a checksum
	case "sha256":
		return sha256.New()
	}
	return nil
}

// digest is a hash over the payload that has to come to what the client said.
type digest struct {
	hash  hash.Hash
	want  []byte
	wrong *Error
}

func (d *digest) verify() error {
	if subtle.ConstantTimeCompare(d.hash.Sum(nil), d.want) != 1 {
		return d.wrong
	}
	return nil
}

// decodeSum decodes the one value of a header, or returns nil.
func decodeSum(values []string, size int) []byte {
	if len(values) != 1 {
		return nil
	}
	sum, err := base64.StdEncoding.DecodeString(values[0])
	// Decoding overlooks line ends, which have no place in a header.
	if err != nil || len(sum) != size || base64.StdEncoding.EncodeToString(sum) != values[0] {
		return nil
	}
	return sum
}

// expectHash expects the payload that the request signs.
func (p *Payload) expectHash(text string) {
	want, _ := hex.DecodeString(text)
	p.digests = append(p.digests, &digest{hash: sha256.New(), want: want, wrong: refuse(http.StatusBadRequest,
		"XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")})
}

// expectMD5 expects what Content-MD5 says.
func (p *Payload) expectMD5(values []string) error {
	if len(values) == 0 {
		return nil
	}
	want := decodeSum(values, md5.Size)
	if want == nil {
		return refuse(http.StatusBadRequest, "InvalidDigest", "The Content-MD5 you specified is not valid.")
	}
	p.digests = append(p.digests, &digest{hash: md5.New(), want: want, //nolint:gosec // a checksum
		wrong: badDigest("The Content-MD5 you specified did not match what we received.")})
	return nil
}

// expectChecksum expects the checksum that a header has, or that it says the
// trailer will have. There is one at most.
func (p *Payload) expectChecksum(h http.Header, trailing bool) error {
	var names []string
	for name := range h {
		name, found := strings.CutPrefix(strings.ToLower(name), checksumPrefix)
		if found && name != "type" && name != "algorithm" && name != "mode" {
			names = append(names, name)
		}
	}
	values := h[http.CanonicalHeaderKey(trailerHeader)]
	if len(values) > 0 {
		if !trailing {
			return invalidRequest("%s needs a payload with a trailer", trailerHeader)
		}
		name, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(values[0])), checksumPrefix)
		if !found || len(values) > 1 || newHash(name) == nil {
			return invalidRequest("The value specified in the %s header is not supported", trailerHeader)
		}
		names = append(names, name)
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
	default:
		return invalidRequest("Expecting a single %s header. Multiple checksum Types are not allowed.", checksumPrefix)
	}
	name := names[0]
	sum := newHash(name)
	if sum == nil {
		return unsupported("%s%s is not supported", checksumPrefix, name)
	}
	p.checksum = checksumPrefix + name
	p.digests = append(p.digests, &digest{
		hash: sum, wrong: badDigest("The %s you specified did not match the calculated checksum.", strings.ToUpper(name)),
	})
	if p.announced = len(values) > 0; p.announced {
		return nil
	}
	return p.say(h[http.CanonicalHeaderKey(p.checksum)], "header")
}

// say takes what the client says that the checksum is.
func (p *Payload) say(values []string, place string) error {
	d := p.digests[len(p.digests)-1]
	if d.want = decodeSum(values, d.hash.Size()); d.want == nil {
		return invalidRequest("Value for %s %s is invalid.", p.checksum, place)
	}
	p.value = values[0]
	return nil
}

// trailer takes the checksum of a trailer, if one was announced: nothing else
// may be there.
func (p *Payload) trailer(fields []field) error {
	switch {
	case !p.announced && len(fields) == 0:
		return nil
	case !p.announced, len(fields) != 1, fields[0].name != p.checksum:
		return malformedTrailer()
	}
	return p.say([]string{fields[0].value}, "trailing header")
}
