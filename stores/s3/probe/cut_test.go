package probe_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/probe"
)

type cutWithTLS struct {
	trailers bool // the server takes them
	want     probe.Result
}

// With TLS minio-go signs no payloads, and versitygw keeps what it has of such a one
// when its connection breaks; but not if a checksum is to come behind it.
func TestCutWithTLS(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	cases := map[string]cutWithTLS{"trailers": {true, probe.Honoured}}
	if s.Name() == "versitygw" {
		cases["unsigned"] = cutWithTLS{false, probe.Violated}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := transport(t)
			// What is meant for TLS goes without.
			through := roundTripper(func(r *http.Request) (*http.Response, error) {
				if !c.trailers && r.Header.Get("X-Amz-Content-Sha256") == "STREAMING-UNSIGNED-PAYLOAD-TRAILER" {
					return &http.Response{StatusCode: http.StatusNotImplemented, Request: r, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}, nil
				}
				r = r.Clone(r.Context())
				r.URL.Scheme = "http"
				return own.RoundTrip(r)
			})
			client, err := minio.New(s.Endpoint(), &minio.Options{
				Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, Secure: true, Transport: through,
				MaxRetries: 1, BucketLookup: minio.BucketLookupPath,
			})
			if err != nil {
				t.Fatal(err)
			}
			report, err := probe.Run(t.Context(), client, probe.Config{Bucket: s.Bucket(t), Rounds: 1, Parallel: 2, Transport: through})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range report.Rows {
				if want := c.want; row.Name == "PutObject/cut" && row.Result != want {
					t.Errorf("%v, want %v: %s", row.Result, want, row.Answer)
				}
			}
			if fit := report.Framed() == nil; fit != (c.want == probe.Honoured) {
				t.Errorf("fit: %v", report.Framed())
			}
		})
	}
}
