package s3store

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
)

// plain sends by HTTP what a client thinks goes by TLS, so that it does not sign
// payloads.
type plain struct{ http.RoundTripper }

func (p plain) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return p.RoundTripper.RoundTrip(r)
}

// I2: versitygw stores what it has got of a payload that is not signed when its
// connection breaks. That is never taken for the write.
func TestServerKeepsPartOfAPayload(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client, err := minio.New(e.link.Endpoint(), &minio.Options{
			Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
			Secure: true, Transport: plain{transport},
		})
		if err != nil {
			t.Fatal(err)
		}
		store, err := New(client, Config{Bucket: e.bucket})
		if err != nil {
			t.Fatal(err)
		}
		const size = 4 << 20
		value := strings.Repeat("x", size)
		for i, cut := range []func() error{
			func() error {
				e.link.CutBody(s3link.Op(s3link.PutObject), 1, size/2)
				_, err := store.Put(t.Context(), writer(33), "k", streamed{strings.NewReader(value)}, size, PutOptions{})
				return err
			},
			func() error {
				_, err := store.Put(t.Context(), writer(33), "k", streamed{bytes.NewReader(make([]byte, size/2))}, size, PutOptions{})
				return err
			},
		} {
			mustPut(t, store, writer(33), "k", "old")
			err := cut()
			data, _ := e.stored(t, "k")
			outcome := guard.OutcomeOf(err)
			if kept := string(data[64:]) != "old"; err == nil || kept && outcome != guard.Unknown || len(data) > size {
				t.Errorf("%d: %d bytes are stored: %v (%v)", i, len(data), err, outcome)
			}
		}
		// What is signed it does not keep; small payloads are.
		mustPut(t, store, writer(33), "k", "old")
		small := value[:payload.Small]
		e.link.CutBody(s3link.Op(s3link.PutObject), 1, payload.Small/2)
		// It is sent again if all of it had left when the connection broke: only
		// then is there a doubt.
		_, err = store.Put(t.Context(), writer(33), "k", strings.NewReader(small), payload.Small, PutOptions{})
		want := small
		if guard.OutcomeOf(err) == guard.NotApplied {
			want = "old"
		} else if err != nil {
			t.Errorf("a small payload that is cut once: %v", err)
		}
		expectValue(t, store, writer(33), "k", want)
		mustPut(t, store, writer(33), "k", "new")
		expectValue(t, store, writer(33), "k", "new")
	})
}
