package http1

import (
	"io"
	"net/http"
	"testing"
)

// BenchmarkServe is a GET of 4 KiB on a connection that is kept.
func BenchmarkServe(b *testing.B) {
	data := pattern(4096)
	answer := func(w http.ResponseWriter) {
		h := w.Header()
		h.Set("Content-Length", "4096")
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Etag", `"0123456789abcdef0123456789abcdef"`)
		_, _ = w.Write(data)
	}
	b.Run("ours", func(b *testing.B) {
		benchmark(b, start(b, patient(func(w *Response, _ *http.Request) { answer(w) })))
	})
	b.Run("net-http", func(b *testing.B) {
		ln := listen(b)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) })}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Serve(ln) }()
		defer func() { server.Close(); <-ended }()
		benchmark(b, &running{addr: ln.Addr().String()})
	})
}

func benchmark(b *testing.B, s *running) {
	b.Helper()
	const request = "GET /bucket/key HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nUser-Agent: aws-sdk-go\r\nAccept-Encoding: identity\r\nAmz-Sdk-Request: attempt=1; max=3\r\n" +
		"X-Amz-Date: 20261130T070000Z\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\nAuthorization: AWS4-HMAC-SHA256 Credential=k/20261130/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n"
	c := s.dial(b)
	c.send(request)
	size := 4096
	for line := ""; line != "\r\n"; size += len(line) {
		var err error
		if line, err = c.r.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	answer := make([]byte, size) // each is as long
	if _, err := io.ReadFull(c.r, answer[:4096]); err != nil {
		b.Fatal(err)
	}
	ask := []byte(request)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(ask); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c.r, answer); err != nil {
			b.Fatal(err)
		}
	}
	if string(answer[size-4096:]) != string(pattern(4096)) {
		b.Error("another answer came")
	}
}
