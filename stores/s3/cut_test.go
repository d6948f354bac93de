package s3store

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// plain sends by HTTP what a client thinks goes by TLS, so that it does not sign
// payloads.
type plain struct{ http.RoundTripper }

func (p plain) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return p.RoundTripper.RoundTrip(r)
}

// plainClient is a client that does not sign payloads, as with TLS.
func (e *env) plainClient(t *testing.T) *minio.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := minio.New(e.link.Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4(e.server.AccessKey, e.server.SecretKey, ""), Region: e.server.Region,
		BucketLookup: minio.BucketLookupPath, MaxRetries: 1, Secure: true, Transport: plain{transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// I2: versitygw stores what it has got of a payload that is not signed when its
// connection breaks. A checksum behind it prevents that; where the server takes
// none, what was kept is never taken for the write.
func TestServerKeepsPartOfAPayload(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		for _, trails := range []bool{true, false} {
			t.Run(fmt.Sprintf("trailers=%v", trails), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, s, Config{})
				store, err := New(e.plainClient(t), Config{Bucket: e.bucket})
				if err != nil {
					t.Fatal(err)
				}
				mustPut(t, store, writer(33), "k", "old")
				if !trails { // the self test of them is the next request
					e.link.Answer(s3link.Op(s3link.PutObject), 1, http.StatusNotImplemented, "NotImplemented")
				}
				testKeptPart(t, e, store, trails)
			})
		}
	})
}

func testKeptPart(t *testing.T, e *env, store *Store, trails bool) {
	t.Helper()
	const size = 4 << 20
	value := strings.Repeat("x", size)
	put := func(r io.Reader) error {
		_, err := store.Put(t.Context(), writer(33), "k", r, size, PutOptions{})
		return err
	}
	if err := put(streamed{strings.NewReader(value)}); err != nil {
		t.Fatal(err)
	}
	expectValue(t, store, writer(33), "k", value)
	if data, _ := e.stored(t, "k"); len(data) != size+layout.HeaderSize {
		t.Errorf("the object has %d bytes", len(data))
	}
	for i, cut := range []func() error{
		func() error {
			e.link.CutBody(s3link.Op(s3link.PutObject), 1, size/2)
			return put(streamed{strings.NewReader(value)})
		},
		func() error { // all but the last byte
			e.link.CutBody(s3link.Op(s3link.PutObject), 1, math.MaxInt64)
			return put(streamed{strings.NewReader(value)})
		},
		func() error {
			e.link.CutBody(s3link.Op(s3link.PutObject), 1, size/2)
			return put(strings.NewReader(value))
		},
		func() error { return put(streamed{bytes.NewReader(make([]byte, size/2))}) },
	} {
		mustPut(t, store, writer(33), "k", "old")
		err := cut()
		data, _ := e.stored(t, "k")
		outcome := guard.OutcomeOf(err)
		switch got := string(data[layout.HeaderSize:]); {
		case err == nil && got == value: // it was sent again
		case err == nil, len(data) > size+layout.HeaderSize, got != "old" && outcome != guard.Unknown:
			t.Errorf("%d: %d bytes are stored: %v (%v)", i, len(data), err, outcome)
		case got != "old" && trails:
			t.Errorf("%d: %d bytes are stored of a payload that broke off: %v", i, len(data), err)
		}
	}
	// A small payload is signed.
	mustPut(t, store, writer(33), "k", "old")
	small := value[:payload.Small]
	e.link.CutBody(s3link.Op(s3link.PutObject), 1, payload.Small/2)
	// It is sent again if all of it had left when the connection broke: only
	// then is there a doubt.
	_, err := store.Put(t.Context(), writer(33), "k", strings.NewReader(small), payload.Small, PutOptions{})
	want := small
	if guard.OutcomeOf(err) == guard.NotApplied {
		want = "old"
	} else if err != nil {
		t.Errorf("a small payload that is cut once: %v", err)
	}
	expectValue(t, store, writer(33), "k", want)
	mustPut(t, store, writer(33), "k", "new")
	expectValue(t, store, writer(33), "k", "new")
}
