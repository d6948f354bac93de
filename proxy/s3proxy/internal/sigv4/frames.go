package sigv4

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"hash"
	"io"
	"strings"
)

const (
	// bufferSize is what is read of the body at once where no large buffer of
	// the reader's can be filled instead.
	bufferSize = 16 << 10
	// maxChunkHeader is longer than any chunk header: 16 digits, a signature.
	maxChunkHeader = 128
	// maxTrailer is longer than any trailer: a checksum, a signature.
	maxTrailer = 1 << 10
)

// emptyHash is the SHA-256 of nothing, in hex.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

const (
	signatureField  = "x-amz-trailer-signature"
	signatureOption = ";chunk-signature="
)

// chain is the signatures of a request's chunks, each of which signs the one
// before it.
//
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
type chain struct {
	key      []byte
	scope    string // date and scope, each with its line end
	previous []byte // in hex
	mac      hash.Hash
	buf      []byte
}

// follows tells whether a signature is the next one, over a chunk or a trailer.
func (c *chain) follows(signature []byte, kind, middle string, sum []byte) bool {
	return subtle.ConstantTimeCompare(c.next(kind, middle, sum), signature) == 1
}

// field is a line of a trailer.
type field struct{ name, value string }

// frames takes the chunks of an aws-chunked body off.
type frames struct {
	in        *bufio.Reader
	chain     *chain    // nil if chunks are not signed
	sum       hash.Hash // of the chunk
	buf       []byte    // what it comes to
	signature []byte    // that its header says
	size      int64     // of the chunk
	left      int64     // bytes of it that have not been read yet
	place     int64     // where the last chunk that was verified ends in the payload
	verified  []byte    // its SHA-256; empty if there is none, or it is not signed
	trailing  bool      // a trailer follows
}

func newFrames(body io.Reader, trailing bool) *frames {
	return &frames{in: bufio.NewReaderSize(body, bufferSize), trailing: trailing}
}

func (f *frames) sign(c *chain) {
	c.mac = hmac.New(sha256.New, c.key)
	f.chain, f.sum = c, sha256.New()
}

// read reads at least one byte of a payload of which so much is left, or fails.
// The end of a chunk is verified with its last byte.
func (f *frames) read(b []byte, left int64) (int, error) {
	if f.left == 0 {
		if err := f.open(left); err != nil {
			return 0, err
		}
	}
	n, err := f.in.Read(b[:min(int64(len(b)), f.left)])
	if f.sum != nil {
		f.sum.Write(b[:n])
	}
	if f.left -= int64(n); f.left > 0 {
		return n, err
	}
	if err := f.end(); err != nil {
		return 0, err
	}
	return n, nil
}

// open begins a chunk of a payload of which so much is left.
func (f *frames) open(left int64) error {
	size, err := f.begin()
	if err != nil {
		return err
	}
	if size == 0 || size > left {
		return incomplete(nil)
	}
	f.size, f.left = size, size
	return nil
}

// begin reads the header of a chunk and returns its size.
func (f *frames) begin() (int64, error) {
	line, err := f.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(line) > maxChunkHeader {
		return 0, incomplete(nil)
	}
	if err != nil {
		return 0, err
	}
	line, found := bytes.CutSuffix(line, []byte("\r\n"))
	if !found {
		return 0, incomplete(nil)
	}
	if f.chain != nil {
		var signature []byte
		if line, signature, found = bytes.Cut(line, []byte(signatureOption)); !found {
			return 0, incomplete(nil)
		}
		f.signature = append(f.signature[:0], signature...)
		f.sum.Reset()
	}
	return parseSize(line)
}

// parseSize parses up to 16 digits of hex.
func parseSize(digits []byte) (size int64, err error) {
	if len(digits) == 0 || len(digits) > 16 {
		return 0, incomplete(nil)
	}
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, incomplete(nil)
		}
		size = size<<4 | int64(c)
	}
	if size < 0 {
		return 0, incomplete(nil)
	}
	return size, nil
}

// end reads what follows the bytes of a chunk, and verifies it.
func (f *frames) end() error {
	for _, want := range []byte("\r\n") {
		c, err := f.in.ReadByte()
		if err != nil {
			return err
		}
		if c != want {
			return incomplete(nil)
		}
	}
	if err := f.verify(); err != nil {
		return err
	}
	if f.place += f.size; f.chain != nil {
		f.verified = append(f.verified[:0], f.buf...)
	}
	return nil
}

// verify verifies the signature of the chunk that was read.
func (f *frames) verify() error {
	if f.chain == nil {
		return nil
	}
	f.buf = f.sum.Sum(f.buf[:0])
	if !f.chain.follows(f.signature, "AWS4-HMAC-SHA256-PAYLOAD", emptyHash+"\n", f.buf) {
		return mismatch()
	}
	return nil
}

// finish reads the chunk that ends all and what follows it to the end of the
// body, and returns the trailer, whose signature is verified.
func (f *frames) finish() ([]field, error) {
	size, err := f.begin()
	if err != nil {
		return nil, err
	}
	if size != 0 {
		return nil, incomplete(nil)
	}
	if err := f.verify(); err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(io.LimitReader(f.in, maxTrailer+1))
	if err != nil {
		return nil, err
	}
	if len(rest) > maxTrailer {
		return nil, malformedTrailer()
	}
	fields, err := parseTrailer(string(rest))
	if err != nil || f.chain == nil || !f.trailing {
		return fields, err
	}
	return f.chain.signs(fields)
}

// parseTrailer parses the lines of a trailer. Some clients end them with LF
// alone, or put an empty one in front of the signature.
//
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
func parseTrailer(text string) (fields []field, err error) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !isName(strings.ToLower(name)) {
			return nil, malformedTrailer()
		}
		fields = append(fields, field{strings.ToLower(name), strings.Trim(value, " \t")})
	}
	return fields, nil
}

// signs verifies that the last field of a trailer signs the others, and returns
// those.
func (c *chain) signs(fields []field) ([]field, error) {
	last := len(fields) - 1
	if last < 0 || fields[last].name != signatureField {
		return nil, malformedTrailer()
	}
	var text strings.Builder
	for _, f := range fields[:last] {
		text.WriteString(f.name + ":" + f.value + "\n")
	}
	sum := sha256.Sum256([]byte(text.String()))
	if !c.follows([]byte(fields[last].value), "AWS4-HMAC-SHA256-TRAILER", "", sum[:]) {
		return nil, mismatch()
	}
	return fields[:last], nil
}
