package sigv4

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// store is a server that keeps what is put, and says no as S3 does.
type store struct {
	verifier *Verifier
	mu       sync.Mutex
	objects  map[string][]byte
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := payload(s.verifier, r)
	if e := (*Error)(nil); errors.As(err, &e) {
		w.WriteHeader(e.Status)
		_, _ = io.WriteString(w, "<Error><Code>"+e.Code+"</Code><Message>"+e.Message+"</Message></Error>")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[r.URL.Path] = body
	w.Header().Set("ETag", `"x-0"`)
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// TestMinio is row 12 of the public reports (aws-sigv4-proxy#87, s3proxy#657,
// mojatter/s2#45), where the lines between the chunks were stored with the
// object: what minio-go puts over plain HTTP is what it was given, in any size.
func TestMinio(t *testing.T) {
	t.Parallel()
	s := &store{objects: map[string][]byte{}, verifier: New(Config{Secret: func(key string) (string, bool) { return exampleSecret, key == exampleKey }})}
	server := serve(t, s)
	for _, trailing := range []bool{false, true} {
		client, err := minio.New(strings.TrimPrefix(server.URL, "http://"), &minio.Options{
			Creds: credentials.NewStaticV4(exampleKey, exampleSecret, "ft1:x:42:h:i:orders"), Region: "us-east-1", TrailingHeaders: trailing, MaxRetries: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
			want := bytes.Repeat([]byte("fence"), size/5+1)[:size]
			for _, sum := range []minio.ChecksumType{minio.ChecksumNone, minio.ChecksumCRC32C, minio.ChecksumCRC64NVME, minio.ChecksumSHA256} {
				if sum != minio.ChecksumNone && !trailing {
					continue
				}
				key := strconv.Itoa(size) + " +=~ü " + sum.String() + strconv.FormatBool(trailing)
				o := minio.PutObjectOptions{Checksum: sum, UserMetadata: map[string]string{"a": "b  c"}, SendContentMd5: sum == minio.ChecksumNone}
				if _, err := client.PutObject(t.Context(), "bucket", key, bytes.NewReader(want), int64(size), o); err != nil {
					t.Errorf("%s: %v", key, err)
				} else if got := s.objects["/bucket/"+key]; !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes", key, len(got))
				}
			}
		}
	}
}

// TestContinue: a client that waits for 100-continue is told to go on by the
// first Read, and not before.
func TestContinue(t *testing.T) {
	t.Parallel()
	for _, reads := range []bool{false, true} {
		server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q, err := at(exampleTime()).Verify(r)
			if err != nil {
				t.Error(err)
				return
			}
			p, err := q.Payload()
			if err != nil || p.Size() != int64(len(hello)) {
				t.Error(err)
				return
			}
			if reads {
				body, err := io.ReadAll(p)
				if string(body) != hello || err != nil {
					t.Errorf("%q %v", body, err)
				}
			}
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusPreconditionFailed)
		}))
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		head, _ := scribe{}.put(sha(hello), len(hello), "expect: 100-continue")
		_, _ = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n")
		in := bufio.NewReader(conn)
		line, err := in.ReadString('\n')
		if want := "HTTP/1.1 412 Precondition Failed\r\n"; !reads && line != want {
			t.Fatalf("%q %v", line, err)
		} else if !reads {
			continue
		}
		if line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = io.WriteString(conn, hello)
		rest, err := io.ReadAll(in)
		if err != nil || !strings.Contains(string(rest), "412") {
			t.Fatalf("%q %v", rest, err)
		}
	}
}

// TestUnsignedTrailer is row 17 of the public reports (s3-orchestrator#1536,
// trinodb/aws-proxy#199), chunked twice, as aws-cli and boto3 do it over TLS: a
// trailer that nobody signed has no signature, and its checksum counts.
func TestUnsignedTrailer(t *testing.T) {
	t.Parallel()
	s := &store{objects: map[string][]byte{}, verifier: at(exampleTime())}
	server := serve(t, s)
	for text, want := range map[string]string{hello: "", "hello worle": "BadDigest"} {
		_, body := scribe{}.upload(unsignedTrailer, []string{sumOf("crc32")}, text)
		head := scribe{}.header("PUT /bucket/key HTTP/1.1\nHost: s3.example\nTransfer-Encoding: chunked\nContent-Encoding: aws-chunked\nx-amz-decoded-content-length: 11\n"+
			"x-amz-trailer: x-amz-checksum-crc32\nx-amz-content-sha256: "+unsignedTrailer, append([]string{"x-amz-decoded-content-length", "x-amz-trailer"}, sumNames...)...)
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n"+transferChunks(body))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		conn.Close()
		if err != nil || want == "" && (len(answer) > 0 || string(s.objects["/bucket/key"]) != hello) || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %q %v", text, answer, err)
		}
		delete(s.objects, "/bucket/key")
	}
}

// TestMemory: what is allocated depends neither on how long a payload or a chunk
// is, nor on how long a client says it is.
func TestMemory(t *testing.T) { //nolint:paralleltest // what is allocated is counted for the whole process
	const size = 64 << 20
	chunk := strings.Repeat("0", size)
	for name, text := range map[string][2]string{
		"one chunk": pairOf(scribe{}.upload(signedChunks, nil, chunk)),
		"declared":  pairOf(scribe{off: 1 << 60}.upload(unsignedTrailer, nil, "x")),
		"a line":    {first(scribe{}.upload(signedChunks, nil, chunk)), chunk},
	} {
		body := strings.NewReader(text[1])
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(text[1])
				r := request(b, text[0], strings.NewReader(""))
				r.Body = io.NopCloser(body)
				q, err := at(exampleTime()).Verify(r)
				if err != nil {
					b.Fatal(err)
				}
				p, err := q.Payload()
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.CopyBuffer(struct{ io.Writer }{sha256.New()}, p, make([]byte, 32<<10))
			}
		})
		if got := result.AllocedBytesPerOp(); got > 128<<10 {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

func pairOf(a, b string) [2]string { return [2]string{a, b} }

func first(a, _ string) string { return a }
