package sigv4

import (
	"crypto/sha256"
	"io"
	"strings"
	"testing"
)

// BenchmarkVerify is the head of a request, with what most of them have.
func BenchmarkVerify(b *testing.B) {
	text, _ := scribe{}.put(unsignedSum, 4096, "content-type: application/octet-stream", "user-agent: x", "x-amz-security-token: ft1:x:42:h:i:orders")
	r := request(b, text, strings.NewReader(""))
	v := at(exampleTime())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPayload is 16 MiB in chunks of 64 KiB, read as a copy reads them; sha256
// alone is what it costs at least.
func BenchmarkPayload(b *testing.B) {
	const size, cut = 16 << 20, 64 << 10
	var chunks []string
	for range size / cut {
		chunks = append(chunks, strings.Repeat("0", cut))
	}
	payload := strings.Join(chunks, "")
	run := func(name string, head, body string) {
		b.Run(name, func(b *testing.B) {
			buffer := make([]byte, 128<<10)
			in := strings.NewReader(body)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(body)
				r := request(b, head, strings.NewReader(""))
				r.Body = io.NopCloser(in)
				q, err := at(exampleTime()).Verify(r)
				if err != nil {
					b.Fatal(err)
				}
				p, err := q.Payload()
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, p, buffer); n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
	b.Run("sha256 alone", func(b *testing.B) {
		text := []byte(payload)
		b.SetBytes(size)
		for b.Loop() {
			sha256.Sum256(text)
		}
	})
	bare, _ := scribe{}.put(unsignedSum, size)
	run("unsigned", bare, payload)
	bare, _ = scribe{}.put(sha(payload), size)
	run("sha256", bare, payload)
	head, body := scribe{}.upload(signedChunks, nil, chunks...)
	run("signed chunks", head, body)
	for _, name := range []string{"crc32", "crc32c", "crc64nvme", "sha1", "sha256"} {
		head, body := scribe{}.upload(unsignedTrailer, []string{"x-amz-checksum-" + name + ":" + checksumOf(name, payload)}, chunks...)
		run("unsigned trailer "+name, head, body)
	}
	var small []string
	for rest := payload; rest != ""; rest = rest[8<<10:] {
		small = append(small, rest[:8<<10])
	}
	head, body = scribe{}.upload(signedTrailer, []string{"x-amz-checksum-crc32:" + checksumOf("crc32", payload)}, small...)
	run("signed trailer, 8 KiB", head, body)
}
