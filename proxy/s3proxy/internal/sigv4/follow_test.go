package sigv4

import (
	"bytes"
	"hash"
	"io"
	"net/http"
	"testing"
)

// counted is a hash that knows how much was written to it.
type counted struct {
	hash.Hash

	bytes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return c.Hash.Write(p)
}

// cutAs is a client's request whose chunks have these sizes.
func cutAs(t *testing.T, value []byte, first, each int64) (*http.Request, []byte) {
	t.Helper()
	r := outgoing(7)
	r.Header = http.Header{}
	r.Method, r.Body = http.MethodPut, io.NopCloser(bytes.NewReader(value))
	newSigner().SignStream(r, int64(len(value)), signedAt, nil)
	chunks := r.Body.(*Chunks)
	chunks.cut = cut{first: first, each: each}
	chunks.buf = make([]byte, frontSize+int(max(first, each))+2)
	r.ContentLength = chunks.cut.length(int64(len(value)))
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != r.ContentLength {
		t.Fatalf("%v, %d bytes of %d", err, len(body), r.ContentLength)
	}
	return r, body
}

// onward sends a payload on with something in front.
func onward(t *testing.T, front []byte, p *Payload) (*http.Request, *counted) {
	t.Helper()
	r := outgoing(7)
	r.Header = http.Header{}
	r.Method, r.Body = http.MethodPut, io.NopCloser(io.MultiReader(bytes.NewReader(front), p))
	newSigner().SignStream(r, int64(len(front))+p.Size(), signedAt, p)
	chunks := r.Body.(*Chunks)
	c := &counted{Hash: chunks.sum}
	chunks.sum = c
	return r, c
}

// What a client has in chunks goes on in the same ones where they are of a fit size, and
// only the first, which has something in front, is hashed again.
func TestChunksAreFollowed(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	for name, c := range map[string]struct {
		first, each int64
		front, size int
		hashed      int // bytes
	}{
		"minio-go's":            {64 * kib, 64 * kib, 64, 300 * kib, 64*kib + 64},
		"to the last byte":      {64 * kib, 64 * kib, 64, 256*kib + 1, 64*kib + 64},
		"whole ones":            {64 * kib, 64 * kib, 64, 256 * kib, 64*kib + 64},
		"nothing in front":      {128 * kib, 128 * kib, 0, 300 * kib, 0},
		"one":                   {64 * kib, 64 * kib, 64, 100, 164},
		"one, nothing before":   {64 * kib, 64 * kib, 0, 10 * kib, 0},
		"small":                 {8*kib - 1, 8*kib - 1, 64, 300 * kib, 300*kib + 64},
		"the smallest":          {8 * kib, 8 * kib, 64, 300 * kib, 8*kib + 64},
		"the largest":           {256 * kib, 256 * kib, 64, 600 * kib, 256*kib + 64},
		"large":                 {256*kib + 1, 256*kib + 1, 64, 600 * kib, 600*kib + 64},
		"others than the first": {64 * kib, 80 * kib, 64, 300 * kib, 300*kib + 64},
		"much in front":         {64 * kib, 64 * kib, maxFront + 1, 300 * kib, 300*kib + maxFront + 1},
	} {
		value := bytes.Repeat([]byte("0123456789abcdef"), c.size/16+1)[:c.size]
		front := bytes.Repeat([]byte("f"), c.front)
		sent, body := cutAs(t, value, c.first, c.each)
		p, err := payloadOf(t, sent, body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, hashed := onward(t, front, p)
		body, err = io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength {
			t.Fatalf("%s: %v, %d bytes, length %d", name, err, len(body), r.ContentLength)
		}
		if got, err := received(t, r, body); err != nil || !bytes.Equal(got, append(front, value...)) {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
		if hashed.bytes != c.hashed {
			t.Errorf("%s: %d bytes were hashed, want %d", name, hashed.bytes, c.hashed)
		}
	}
}

// A byte that was changed on the client's way, wherever, ends the body before the last
// chunk.
func TestFollowedChunksAreVerified(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte("0123456789abcdef"), 200<<10/16)
	sent, body := cutAs(t, value, 64<<10, 64<<10)
	for at := 0; at < len(body); at += 1021 {
		changed := bytes.Clone(body)
		changed[at] ^= 1
		p, err := payloadOf(t, sent, changed)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := onward(t, []byte("front"), p)
		out, err := io.ReadAll(r.Body)
		if err == nil || bytes.Contains(out, []byte("\r\n0"+signatureOption)) {
			t.Fatalf("byte %d: %v, %d bytes", at, err, len(out))
		}
	}
}
