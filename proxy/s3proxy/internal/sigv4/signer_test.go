package sigv4

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// outgoing returns a request with whatever stands in one, the same for the same seed.
func outgoing(seed uint64) *http.Request {
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	path := "/bucket/" + pick([]string{"k", "a b", "ä/ö", "a+b=c&d", "~'()*!,;:@$", "%41", "x//y", "#?"})
	r := &http.Request{
		Method: pick([]string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete}), Host: "store.example:9000", Header: http.Header{},
		URL: &url.URL{Scheme: "http", Host: "store.example:9000", Path: path, RawPath: EscapePath(path)},
	}
	query := url.Values{}
	for range rng.IntN(4) {
		query.Set(pick([]string{"uploadId", "partNumber", "tagging", "prefix", "a b"}), pick([]string{"", "1", "a b", "ä+&=", "~"}))
	}
	r.URL.RawQuery = s3utils.QueryEncode(query)
	for range rng.IntN(6) {
		r.Header.Set(pick([]string{"If-Match", "If-None-Match", "Range", "X-Amz-Meta-A", "X-Amz-Tagging", "Content-Type", "User-Agent"}),
			pick([]string{"*", `"etag"`, "bytes=0-63", "text  of two spaces", "ä"}))
	}
	return r
}

type hasher struct{ hash.Hash }

func (hasher) Close() {}

var signedAt = time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)

func newSigner() *Signer {
	return &Signer{AccessKey: "access", SecretKey: "secret", Region: "eu-central-1"}
}

// The signature is the one that minio-go makes of the same request.
func TestSignsAsMinio(t *testing.T) {
	t.Parallel()
	s := newSigner()
	for seed := range uint64(500) {
		ours, theirs := outgoing(seed), outgoing(seed)
		theirs.URL.RawPath = ""
		hash := sha(fmt.Sprint(seed))
		theirs.Header.Set("X-Amz-Content-Sha256", hash)
		at := time.Now()
		s.Sign(ours, hash, at)
		theirs = signer.SignV4(*theirs, s.AccessKey, s.SecretKey, "", s.Region)
		if theirs.Header.Get("X-Amz-Date") != ours.Header.Get("X-Amz-Date") {
			continue // the second has changed
		}
		ignoreSpaces := strings.NewReplacer(" ", "")
		our, their := ignoreSpaces.Replace(ours.Header.Get("Authorization")), ignoreSpaces.Replace(theirs.Header.Get("Authorization"))
		if our != their {
			t.Fatalf("seed %d, %s:\n%s\nminio-go has\n%s", seed, ours.URL, our, their)
		}
	}
}

// A body in chunks is, byte for byte, the one that minio-go makes; and the verifier
// takes it, if nothing of it was changed.
func TestStreamsAsMinio(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 15, 16, 4096, ChunkSize - 1, ChunkSize, ChunkSize + 1, 3*ChunkSize + 17} {
		value := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		ours, body := streamed(t, value)
		theirs := outgoing(7)
		theirs.Header = http.Header{"Content-Encoding": {"gzip"}}
		theirs.Method, theirs.Body = http.MethodPut, io.NopCloser(bytes.NewReader(value))
		theirs.URL.RawPath = ""
		s := newSigner()
		theirs = signer.StreamingSignV4(theirs, s.AccessKey, s.SecretKey, "", s.Region, int64(size), signedAt, hasher{sha256.New()})
		their, err := io.ReadAll(theirs.Body)
		if err != nil {
			t.Fatal(err)
		}
		if theirs.ContentLength != ours.ContentLength || int64(len(body)) != ours.ContentLength {
			t.Errorf("%d bytes: length %d of %d, minio-go has %d", size, len(body), ours.ContentLength, theirs.ContentLength)
		}
		if !bytes.Equal(body, their) {
			t.Errorf("%d bytes: not what minio-go sends", size)
		}
		if got, err := received(t, ours, body); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%d bytes: %v, %d bytes", size, err, len(got))
		}
		changed := bytes.Clone(body)
		changed[rand.IntN(len(changed))] ^= 1
		if _, err := received(t, ours, changed); err == nil {
			t.Errorf("%d bytes: a changed byte is not seen", size)
		}
	}
}

func streamed(t *testing.T, value []byte) (*http.Request, []byte) {
	t.Helper()
	r := outgoing(7)
	r.Header = http.Header{"Content-Encoding": {"gzip"}}
	r.Method, r.Body = http.MethodPut, io.NopCloser(bytes.NewReader(value))
	newSigner().SignStream(r, int64(len(value)), signedAt, nil)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body
}

// received is what a server has of a request.
func received(t *testing.T, sent *http.Request, body []byte) ([]byte, error) {
	t.Helper()
	p, err := payloadOf(t, sent, body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(p)
}

func payloadOf(t *testing.T, sent *http.Request, body []byte) (*Payload, error) {
	t.Helper()
	s := newSigner()
	v := New(Config{
		Region: s.Region, Now: func() time.Time { return signedAt },
		Secret: func(key string) (string, bool) { return s.SecretKey, key == s.AccessKey },
	})
	r := sent.Clone(t.Context())
	r.RequestURI, r.Body = sent.URL.RequestURI(), io.NopCloser(bytes.NewReader(body))
	q, err := v.Verify(r)
	if err != nil {
		return nil, err
	}
	return q.Payload()
}

// A source that ends too early, or fails, ends the body before its last chunk.
func TestStreamOfBrokenSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, source := range map[string]io.Reader{
		"short":  strings.NewReader(strings.Repeat("x", ChunkSize+5)),
		"broken": io.MultiReader(strings.NewReader(strings.Repeat("x", ChunkSize+5)), errReader{broken}),
	} {
		r := outgoing(7)
		r.Method, r.Body = http.MethodPut, io.NopCloser(source)
		newSigner().SignStream(r, 2*ChunkSize, signedAt, nil)
		data, err := io.ReadAll(r.Body)
		if err == nil || len(data) > 2*ChunkSize || name == "broken" && !errors.Is(err, broken) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		if _, again := r.Body.Read(make([]byte, 1)); !errors.Is(again, err) {
			t.Errorf("%s: then %v", name, again)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// Whose secret changes, or when a day begins, is not taken for who was there before.
func TestKeysAreRemembered(t *testing.T) {
	t.Parallel()
	var k keys
	for _, c := range []struct{ key, secret, date string }{
		{"a", "s", "20260101"}, {"a", "s", "20260101"}, {"a", "t", "20260101"}, {"a", "t", "20260102"}, {"b", "t", "20260102"}, {"a", "s", "20260101"},
	} {
		if got, want := k.of(c.key, c.secret, c.date, "r").bytes, signingKey(c.secret, c.date, "r"); !bytes.Equal(got, want) {
			t.Errorf("%v: %x, want %x", c, got, want)
		}
	}
	if len(k.m) != 2 {
		t.Errorf("%d keys are remembered", len(k.m))
	}
}
