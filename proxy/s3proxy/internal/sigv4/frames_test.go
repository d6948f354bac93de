package sigv4

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// stream is an upload in chunks, and what is in it.
type stream struct {
	name, mode, head, body, payload, announced, seed string
}

// streams are uploads in every mode that has chunks.
func streams() (all []stream) {
	payload := strings.Repeat("0123456789abcdef", 20) + "the end"
	for _, cut := range []int{len(payload), 100, 1} {
		var chunks []string
		for rest := payload; rest != ""; {
			n := min(cut, len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
			if cut == 1 && len(chunks) == 3 {
				cut = len(payload)
			}
		}
		all = append(all,
			streamOf(signedChunks, "-", payload, nil, chunks),
			streamOf(signedTrailer, "x-amz-checksum-crc32", payload, []string{"x-amz-checksum-crc32:" + checksumOf("crc32", payload)}, chunks),
			streamOf(unsignedTrailer, "x-amz-checksum-crc64nvme", payload, []string{"x-amz-checksum-crc64nvme:" + checksumOf("crc64nvme", payload)}, chunks),
		)
	}
	return append(all,
		streamOf(signedChunks, "-", "", nil, nil),
		streamOf(signedTrailer, "x-amz-checksum-sha1", "", []string{"x-amz-checksum-sha1:" + checksumOf("sha1", "")}, nil),
		streamOf(unsignedTrailer, "x-amz-checksum-crc32c", "x", []string{"x-amz-checksum-crc32c:" + checksumOf("crc32c", "x")}, []string{"x"}),
	)
}

func streamOf(mode, announced, payload string, trailer, chunks []string) stream {
	s := stream{name: fmt.Sprintf("%s of %d in %d", mode, len(payload), len(chunks)), mode: mode, announced: announced, payload: payload}
	s.head, s.body = scribe{}.upload(mode, trailer, chunks...)
	if mode != unsignedTrailer {
		s.seed = s.head[strings.LastIndex(s.head, "=")+1 : len(s.head)-1]
	}
	return s
}

// read reads the payload of a stream from another body, which comes in reads of
// any size, into buffers of a size. It fails if the last byte was handed out with
// an error.
func (s stream) read(t testing.TB, body io.Reader, buffer int) (string, error) {
	t.Helper()
	r := request(t, s.head, strings.NewReader(""))
	r.Body = io.NopCloser(body)
	q, err := at(exampleTime()).Verify(r)
	if err != nil {
		t.Fatal(err)
	}
	p, err := q.Payload()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for b := make([]byte, buffer); ; {
		n, err := p.Read(b)
		got.Write(b[:n])
		if err == nil {
			continue
		}
		if n2, again := p.Read(b); n2 != 0 || !errors.Is(again, err) {
			t.Fatalf("after %v comes %d, %v", err, n2, again)
		}
		if errors.Is(err, io.EOF) {
			return got.String(), nil
		}
		if n > 0 || got.Len() >= len(s.payload) && s.payload != "" {
			t.Fatalf("%d bytes of %d came with %v", got.Len(), len(s.payload), err)
		}
		return got.String(), err
	}
}

// TestSplits: it does not matter in what pieces a body comes, and in what pieces
// it is read.
func TestSplits(t *testing.T) {
	t.Parallel()
	for _, s := range streams() {
		for _, buffer := range []int{1, 2, 7, 100, 4096} {
			for name, body := range map[string]io.Reader{
				"whole":        strings.NewReader(s.body),
				"one byte":     iotest.OneByteReader(strings.NewReader(s.body)),
				"half":         iotest.HalfReader(strings.NewReader(s.body)),
				"with its end": iotest.DataErrReader(strings.NewReader(s.body)),
				"random":       &randomReader{text: s.body, rand: rand.New(rand.NewPCG(1, uint64(buffer)))},
			} {
				if got, err := s.read(t, body, buffer); err != nil || got != s.payload {
					t.Errorf("%s, %s, by %d: %q %v", s.name, name, buffer, got, err)
				}
			}
		}
	}
}

// randomReader hands a text out in pieces of random size, none at times.
type randomReader struct {
	text string
	rand *rand.Rand
}

func (r *randomReader) Read(b []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), r.rand.IntN(40))], r.text)
	r.text = r.text[n:]
	return n, nil
}

// TestFlippedBytes is row 14 of the public reports (trinodb/aws-proxy#102), where
// a wrong chunk was refused and the object written all the same, and one half of
// row 18 (versitygw#1676, #1660): whatever byte of a stream is changed, its last byte is never handed out, or
// else the change was one that means nothing, like a hex digit in upper case.
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	for _, s := range streams() {
		for i := range len(s.body) {
			for _, bit := range []byte{0x01, 0x20, 0x80} {
				body := s.body[:i] + string([]byte{s.body[i] ^ bit}) + s.body[i+1:]
				got, err := s.read(t, strings.NewReader(body), 1+i%64)
				if err != nil {
					continue
				}
				_, right := scribe{}.reference(body, s.seed, len(s.payload), s.announced)
				if !right || bit == 0x01 || got != s.payload {
					t.Errorf("%s: byte %d, %q for %q, goes unnoticed", s.name, i, body[i], s.body[i])
				}
			}
		}
	}
}

// TestTruncated: a stream that ends too early, anywhere, is incomplete; but for
// the last line ends, which say nothing.
func TestTruncated(t *testing.T) {
	t.Parallel()
	for _, s := range streams() {
		for i := range len(s.body) {
			if _, err := s.read(t, strings.NewReader(s.body[:i]), 50); err == nil && i < len(s.body)-4 || err != nil && code(err) == err.Error() {
				t.Errorf("%s: cut at %d of %d: %v", s.name, i, len(s.body), err)
			}
			cut := io.MultiReader(strings.NewReader(s.body[:i]), iotest.ErrReader(io.ErrUnexpectedEOF))
			if _, err := s.read(t, cut, 50); code(err) != "IncompleteBody" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: connection lost at %d: %v", s.name, i, err)
			}
		}
	}
}

// TestMalformed: what is wrong with a stream has S3's code for it. A wrong last
// signature is row 15 of the public reports (versitygw#1147, chimera#1056).
func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, s := range streams() {
		if s.payload == "" {
			continue
		}
		swapped := strings.Replace(s.body, "\r\n0;chunk-signature=", "\r\n0;chunk-signature="+strings.Repeat("0", 64)+"\r\n\r\n0;chunk-signature=", 1)
		end := max(strings.LastIndex(s.body, "\r\n0;"), strings.LastIndex(s.body, "\r\n0\r")) + 2
		for name, test := range map[string]struct{ body, want string }{
			"twice":          {s.body + s.body, "MalformedTrailerError"},
			"a long trailer": {s.body + "x-a:" + strings.Repeat("a", 2000) + "\r\n", "MalformedTrailerError"},
			"an endless one": {s.body + strings.Repeat("\r\n", 2000), "MalformedTrailerError"},
			"one more":       {s.body[:end] + "1" + s.body[end+1:], "IncompleteBody"},
			"a wrong end":    {swapped, "SignatureDoesNotMatch"},
			"no header":      {strings.Repeat("0", 1<<20), "IncompleteBody"},
			"a huge chunk":   {"ffffffffffffffff" + s.body, "IncompleteBody"},
		} {
			if swapped == s.body && name == "a wrong end" {
				continue
			}
			if _, err := s.read(t, strings.NewReader(test.body), 64); code(err) != test.want {
				t.Errorf("%s, %s: %v", s.name, name, err)
			}
		}
	}
}

// TestDecodedLength is the other half of row 18 of the public reports: a decoded
// length that is off by one.
func TestDecodedLength(t *testing.T) {
	t.Parallel()
	sum := []string{"x-amz-checksum-crc32:" + checksumOf("crc32", "abcdefgh")}
	for mode, trailer := range map[string][]string{signedChunks: nil, signedTrailer: sum, unsignedTrailer: sum} {
		for _, off := range []int{-8, -1, 0, 1, 1 << 40} {
			for _, chunks := range [][]string{{"abcdefgh"}, {"abcd", "efgh"}, {"abcdefg", "h"}} {
				head, body := scribe{off: off}.upload(mode, trailer, chunks...)
				got, err := payload(at(exampleTime()), request(t, head, strings.NewReader(body)))
				if off == 0 && (err != nil || string(got) != "abcdefgh") || off != 0 && (code(err) != "IncompleteBody" || len(got) >= 8+off) && off != -8 {
					t.Errorf("%s of %q, off by %d: %q %v", mode, chunks, off, got, err)
				}
				if off == -8 && (code(err) != "IncompleteBody" || len(got) > 0) {
					t.Errorf("%s of %q, off by all: %q %v", mode, chunks, got, err)
				}
			}
		}
	}
}

// TestLongChunk: a chunk that is longer than the payload is not cut, even where
// what follows the payload looks like its end.
func TestLongChunk(t *testing.T) {
	t.Parallel()
	head, _ := scribe{off: 3}.upload(unsignedTrailer, nil)
	for body, want := range map[string]string{
		"3\r\nabc\r\n0\r\n\r\n": "",
		"5\r\nabc\r\n0\r\n\r\n": "IncompleteBody",
		"5\r\nabc0\r\n\r\n":     "IncompleteBody",
		"4\r\nabc\r\n0\r\n\r\n": "IncompleteBody",
	} {
		r := request(t, head, strings.NewReader(""))
		r.Body = io.NopCloser(strings.NewReader(body))
		if got, err := payload(at(exampleTime()), r); code(err) != want || err != nil && len(got) > 2 {
			t.Errorf("%q: %q %v", body, got, err)
		}
	}
}
