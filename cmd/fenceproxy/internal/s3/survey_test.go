package s3

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// A file that was put into versitygw's folder has no ETag: it is not skipped in
// silence, as if there were none.
func TestSurveyOfAnObjectWithoutETag(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("list-type") {
			fmt.Fprint(w, `<ListBucketResult><Contents><Key>a/direct</Key><Size>100</Size><LastModified>2026-01-02T03:04:05Z</LastModified></Contents></ListBucketResult>`)
			return
		}
		http.ServeContent(w, r, "", time.Unix(1e9, 0), strings.NewReader(strings.Repeat("x", 100)))
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := minio.New(server.Listener.Addr().String(), &minio.Options{
		Creds: credentials.NewStaticV4("key", "secret", ""), Region: "us-east-1", Transport: transport, MaxRetries: 1,
	})
	clitest.Must(t, err)
	got, err := survey(t.Context(), &connect.Bucket{Name: "bucket", Client: client}, "a/", layout.State.Bare, func(s3store.Progress) {})
	if want := (s3store.Progress{Key: "a/direct", Failed: 1}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
