package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ChunkSize is the size in bytes of the chunks that SignStream makes, unless it follows
// those of a payload.
const ChunkSize = 64 << 10

// Which chunks are followed: none that the store might refuse as too small, behind the
// few bytes in front of them, or that take much memory.
const (
	minFollowed, maxFollowed = 8 << 10, 256 << 10
	maxFront                 = 4 << 10
)

// frontSize is what may stand in front of a chunk: "10000;chunk-signature=" and 64
// digits, with the line end.
const frontSize = 5 + len(signatureOption) + 64 + 2

// chunkFrame is what is around a chunk besides the digits of its size.
const chunkFrame = int64(len(signatureOption) + 64 + 2 + 2)

// SignStream signs a request that is sent at that time, with a body of size bytes,
// more than 0, of which nothing is known before it is read. It goes in signed
// chunks: so the store sees when a byte of it was changed, or the last one is
// missing. Body and ContentLength of the request are made those of the chunks; the
// body may be closed while it is read.
//
// If the body ends in a payload, which is given then, and nil otherwise, the chunks are
// those of the payload where they can be: what is hashed to verify one is not hashed
// again to sign it. The head of the payload's first chunk is read for it.
func (s *Signer) SignStream(r *http.Request, size int64, at time.Time, inner *Payload) {
	cut := cutOf(size, inner)
	r.ContentLength = cut.length(size)
	r.Header["X-Amz-Decoded-Content-Length"] = []string{strconv.FormatInt(size, 10)}
	encoding := "aws-chunked" // which the store takes off
	if other := ContentEncoding(r.Header); other != "" {
		encoding += "," + other
	}
	r.Header["Content-Encoding"] = []string{encoding}
	chain := s.sign(r, signedChunks, at)
	chain.mac = hmac.New(sha256.New, chain.key)
	r.Body = &Chunks{
		src: r.Body, chain: chain, sum: sha256.New(), size: size, cut: cut,
		buf: make([]byte, frontSize+int(min(size, max(cut.first, cut.each)))+2),
	}
	r.GetBody = nil
}

// cut is where a body is cut into chunks: the sizes of the first and of the others.
type cut struct {
	first, each int64
	inner       *Payload // whose chunks the others are; nil: nobody's
}

func cutOf(size int64, inner *Payload) cut {
	if inner != nil {
		front := size - inner.size
		if each := inner.chunk(); each >= minFollowed && each <= maxFollowed && front >= 0 && front <= maxFront {
			return cut{first: front + each, each: each, inner: inner}
		}
	}
	return cut{first: ChunkSize, each: ChunkSize}
}

// length is that of a body of size bytes in chunks.
func (c *cut) length(size int64) int64 {
	first := min(size, c.first)
	rest := size - first
	length := chunkLength(first) + rest/c.each*chunkLength(c.each) + chunkLength(0)
	if rest %= c.each; rest > 0 {
		length += chunkLength(rest)
	}
	return length
}

func chunkLength(size int64) int64 {
	return int64(len(strconv.FormatInt(size, 16))) + chunkFrame + size
}

// next is the size of the chunk that begins at this place.
func (c *cut) next(at, size int64) int64 {
	if at == 0 {
		return min(size, c.first)
	}
	return min(size-at, c.each)
}

// sum is the SHA-256 of the chunk from one place to another, if the payload that it is
// a chunk of knows it.
func (c *cut) sum(from, to, size int64) ([]byte, bool) {
	if c.inner == nil {
		return nil, false
	}
	front := size - c.inner.size
	return c.inner.sum(from-front, to-front)
}

// Chunks is a body in signed chunks.
type Chunks struct {
	src   io.ReadCloser
	chain *chain
	sum   hash.Hash
	size  int64  // of src
	at    int64  // how far it was read
	cut   cut    // where it is cut
	buf   []byte // a chunk
	out   []byte // what of it has not been read yet
	ended bool   // the last chunk is in out
	err   error
}

var errShort = errors.New("body is shorter than was said")

// Read hands out the next bytes.
func (c *Chunks) Read(p []byte) (int, error) {
	if len(c.out) == 0 {
		if c.err == nil {
			c.err = c.fill()
		}
		if c.err != nil {
			return 0, c.err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// WriteTo writes chunk by chunk.
func (c *Chunks) WriteTo(w io.Writer) (written int64, err error) {
	for c.err == nil {
		if len(c.out) == 0 {
			c.err = c.fill()
			continue
		}
		n, err := w.Write(c.out)
		c.out, written = c.out[n:], written+int64(n)
		if err != nil {
			return written, err
		}
	}
	if errors.Is(c.err, io.EOF) {
		return written, nil
	}
	return written, c.err
}

// fill makes the next chunk.
func (c *Chunks) fill() error {
	if c.ended {
		return io.EOF
	}
	n := int(c.cut.next(c.at, c.size))
	data := c.buf[frontSize : frontSize+n]
	if _, err := io.ReadFull(c.src, data); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errShort
		}
		return err
	}
	c.at += int64(n)
	c.ended = n == 0 // nothing is left, and this is the chunk that says so
	sum, known := c.cut.sum(c.at-int64(n), c.at, c.size)
	if !known {
		c.sum.Reset()
		c.sum.Write(data)
		sum = c.sum.Sum(nil)
	}
	signature := c.chain.next("AWS4-HMAC-SHA256-PAYLOAD", emptyHash+"\n", sum)
	digits := strconv.AppendInt(make([]byte, 0, 8), int64(n), 16)
	begin := frontSize - (len(digits) + len(signatureOption) + 2*sha256.Size + 2)
	b := append(append(c.buf[begin:begin], digits...), signatureOption...)
	_ = append(append(b, signature...), "\r\n"...)
	copy(c.buf[frontSize+n:], "\r\n")
	c.out = c.buf[begin : frontSize+n+2]
	return nil
}

// Close closes what the body is read from.
func (c *Chunks) Close() error { return c.src.Close() }

// next returns the next signature, over a chunk or a trailer.
func (c *chain) next(kind, middle string, sum []byte) []byte {
	c.mac.Reset()
	c.buf = append(append(append(c.buf[:0], kind...), '\n'), c.scope...)
	c.buf = append(append(c.buf, c.previous...), '\n')
	c.buf = append(c.buf, middle...)
	c.buf = hex.AppendEncode(c.buf, sum)
	c.mac.Write(c.buf)
	c.buf = hex.AppendEncode(c.buf[:0], c.mac.Sum(c.buf[len(c.buf):]))
	c.previous = append(c.previous[:0], c.buf...)
	return c.buf
}
