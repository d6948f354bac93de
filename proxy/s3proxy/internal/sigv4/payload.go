package sigv4

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// What x-amz-content-sha256 says instead of a hash.
const (
	unsignedPayload = "UNSIGNED-PAYLOAD"
	signedChunks    = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	signedTrailer   = signedChunks + "-TRAILER"
	unsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

func checkHashed(text string) error {
	switch {
	case text == unsignedPayload, text == signedChunks, text == signedTrailer, text == unsignedTrailer, isHash(text):
		return nil
	case strings.HasPrefix(text, "STREAMING-AWS4-ECDSA-"):
		return unsupported("%s (Signature Version 4A) is not supported.", text)
	}
	return invalidArgument("x-amz-content-sha256 must be %s, %s, %s, %s or a valid sha256 value.",
		unsignedPayload, unsignedTrailer, signedChunks, signedTrailer)
}

// Payload is the body of a request without what is around it: no chunk headers,
// no trailer. It is an io.Reader.
type Payload struct {
	body   io.Reader
	frames *frames // nil if the body is the payload
	size   int64
	left   int64 // bytes that have not been read yet
	tail   [1]byte
	err    error // what every further Read returns

	digests   []*digest // the one of the checksum is the last
	checksum  string    // name of the x-amz-checksum-*, or empty
	value     string    // what the client says that it is
	announced bool      // it comes in the trailer
}

// Payload returns the payload of the request, which has to be read from the
// body as it is at that time, and from nowhere else. It may be called once, and
// reads nothing yet: a client that expects 100-continue is told to go on by the
// first Read. An error is an [*Error]: the head promises what cannot be kept.
//
// How the body is framed depends on x-amz-content-sha256 alone. Content-MD5 and
// x-amz-checksum-* are verified where they are sent as a header or a trailer;
// but for those of a CompleteMultipartUpload, which are the whole object's. What
// a presigned query says of checksums is ignored, as S3 does: SDKs presign the
// one of an empty body.
func (q *Request) Payload() (*Payload, error) {
	p := &Payload{body: q.http.Body, size: q.http.ContentLength}
	trailing := q.hashed == signedTrailer || q.hashed == unsignedTrailer
	if trailing || q.hashed == signedChunks {
		size, err := decodedLength(q.http.Header)
		if err != nil {
			return nil, err
		}
		p.size, p.frames = size, newFrames(q.http.Body, trailing)
		if q.hashed != unsignedTrailer {
			p.frames.sign(&q.chain)
		}
	}
	p.left = p.size
	if isHash(q.hashed) {
		p.expectHash(q.hashed)
	}
	if err := p.expectMD5(q.http.Header["Content-Md5"]); err != nil {
		return nil, err
	}
	if q.completes {
		return p, nil // its x-amz-checksum-* is of the object
	}
	if err := p.expectChecksum(q.http.Header, trailing); err != nil {
		return nil, err
	}
	return p, nil
}

// decodedLength is how long a framed payload is without the frames.
func decodedLength(h http.Header) (int64, error) {
	values := h["X-Amz-Decoded-Content-Length"]
	if len(values) == 0 {
		return 0, refuse(http.StatusLengthRequired, "MissingContentLength", "You must provide the x-amz-decoded-content-length HTTP header.")
	}
	size, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil || len(values) > 1 {
		return 0, invalidArgument("x-amz-decoded-content-length is not a length")
	}
	return int64(size), nil
}

// Size is the length of the payload in bytes, or -1 if the client did not say:
// S3 answers 411 MissingContentLength then, and so does Read.
func (p *Payload) Size() int64 { return p.size }

// Checksums returns the x-amz-checksum-* that the client sent and that were
// found right, by name in lower case. It is nil before Read has returned the
// last byte, or io.EOF if there is none.
func (p *Payload) Checksums() map[string]string {
	if !errors.Is(p.err, io.EOF) {
		return nil
	}
	if p.checksum == "" {
		return map[string]string{}
	}
	return map[string]string{p.checksum: p.value}
}

// Read reads the next bytes of the payload. It returns the last one only when
// everything was verified; an empty payload is verified before io.EOF. Its error
// is an [*Error] if the body is not what the client signed or said, otherwise
// what reading the body came to. After an error it returns the same again.
func (p *Payload) Read(b []byte) (int, error) {
	switch {
	case p.err != nil:
		return 0, p.err
	case p.size < 0:
		p.err = refuse(http.StatusLengthRequired, "MissingContentLength", "You must provide the Content-Length HTTP header.")
		return 0, p.err
	case len(b) == 0:
		return 0, nil
	case p.left <= 1:
		return p.last(b)
	}
	n, err := p.next(b[:min(int64(len(b)), p.left-1)])
	if err != nil {
		p.err = broken(err)
	}
	if n == 0 {
		return 0, p.err
	}
	return n, nil
}

// last reads the last byte, if there is one, and then verifies.
func (p *Payload) last(b []byte) (int, error) {
	n := int(p.left)
	for p.left > 0 {
		if _, err := p.next(p.tail[:]); err != nil && p.left > 0 {
			p.err = broken(err)
			return 0, p.err
		}
	}
	if err := p.verify(); err != nil {
		p.err = err
		return 0, err
	}
	p.err = io.EOF
	return copy(b, p.tail[:n]), io.EOF
}

// next reads at least one byte, if there is no error.
func (p *Payload) next(b []byte) (n int, err error) {
	if p.frames != nil {
		n, err = p.frames.read(b, p.left)
	} else {
		n, err = p.body.Read(b)
	}
	for _, d := range p.digests {
		d.hash.Write(b[:n])
	}
	p.left -= int64(n)
	return n, err
}

// chunk is the size of the payload's first chunk, if chunks are signed and nothing was
// read yet, otherwise 0. What is wrong with it the next Read tells.
func (p *Payload) chunk() int64 {
	if p.frames == nil || p.frames.chain == nil || p.err != nil || p.left <= 0 || p.left != p.size {
		return 0
	}
	if p.frames.left == 0 {
		if err := p.frames.open(p.left); err != nil {
			p.err = broken(err)
			return 0
		}
	}
	return p.frames.left
}

// sum is the SHA-256 of the payload's bytes from one place to another, if these are the
// last chunk whose signature was verified.
func (p *Payload) sum(from, to int64) ([]byte, bool) {
	f := p.frames
	if f == nil || len(f.verified) == 0 || f.place != to || f.size != to-from || f.left > 0 {
		return nil, false
	}
	return f.verified, true
}

// verify verifies what can be verified only at the end.
func (p *Payload) verify() error {
	if p.frames != nil {
		fields, err := p.frames.finish()
		if err != nil {
			return broken(err)
		}
		if err := p.trailer(fields); err != nil {
			return err
		}
	}
	for _, d := range p.digests {
		if err := d.verify(); err != nil {
			return err
		}
	}
	return nil
}

// broken is what an error of the body means: if it has an end, then too early. It
// never is io.EOF, by which a reader's caller would take it for a good end.
func broken(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return incomplete(io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("read body: %w", err)
}
