package probe_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/probe"
)

// answers is a store whose answers to some requests are the test's.
func answers(t *testing.T, s *testenv.S3Server, of func(r *http.Request) (status int, document string)) *minio.Client {
	t.Helper()
	own := transport(t)
	client, err := minio.New(s.Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, MaxRetries: 1, BucketLookup: minio.BucketLookupPath,
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			status, document := of(r)
			if status == 0 {
				return own.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/xml"}},
				Body: io.NopCloser(strings.NewReader(document)),
			}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A write is refused for its condition's sake only if the answer says so.
func TestRefusedForAnotherReason(t *testing.T) {
	t.Parallel()
	server := testenv.S3(t)
	for code, status := range map[string]int{"XAdminUserNotFound": http.StatusNotFound, "NoSuchBucket": http.StatusNotFound, "Other": http.StatusPreconditionFailed} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			client := answers(t, server, func(r *http.Request) (int, string) {
				if r.Method == http.MethodPut && (r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != "") {
					return status, "<Error><Code>" + code + "</Code><Message>Something else.</Message></Error>"
				}
				return 0, ""
			})
			report := mustRun(t, client, probe.Config{Bucket: server.Bucket(t), Rounds: 1, Parallel: 2})
			got := not(report, true)
			for _, row := range []string{"PutObject/create-existing", "PutObject/swap-earlier", "PutObject/swap-absent"} {
				if !slices.Contains(got, row) {
					t.Errorf("%s is honoured", row)
				}
			}
		})
	}
}
