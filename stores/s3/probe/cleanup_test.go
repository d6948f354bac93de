package probe_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/probe"
)

// An upload that stays in the store's list, and of which the store says that it is gone
// when it is to be aborted (minio #21189, #21456), is looked for some times, and told.
func TestUploadThatStaysInTheList(t *testing.T) {
	t.Parallel()
	server := testenv.S3(t)
	bucket := server.Bucket(t)
	var aborts atomic.Int64
	ghost := probe.Prefix + "ghost"
	client := answers(t, server, func(r *http.Request) (int, string) {
		q := r.URL.Query()
		switch {
		case r.Method == http.MethodGet && q.Has("uploads"):
			return http.StatusOK, fmt.Sprintf(`<ListMultipartUploadsResult><Bucket>%s</Bucket><IsTruncated>false</IsTruncated>
				<Upload><Key>%s</Key><UploadId>ghost</UploadId><Initiated>%s</Initiated></Upload></ListMultipartUploadsResult>`,
				bucket, ghost, time.Now().Add(-48*time.Hour).UTC().Format(time.RFC3339))
		case r.Method == http.MethodDelete && q.Get("uploadId") == "ghost":
			aborts.Add(1)
			return http.StatusNotFound, `<Error><Code>NoSuchUpload</Code><Message>gone</Message></Error>`
		}
		return 0, ""
	})
	report, err := probe.Run(t.Context(), client, probe.Config{Bucket: bucket, Rounds: 1, Parallel: 2, Transport: transport(t)})
	if err != nil {
		t.Fatal(err)
	}
	if n := aborts.Load(); n > 20 {
		t.Errorf("%d requests to end it", n)
	}
	if !slices.Equal(report.Left, []string{ghost}) {
		t.Errorf("left behind, as it says: %q", report.Left)
	}
}

// Who cannot see what is there does not say that nothing is.
func TestListThatFails(t *testing.T) {
	t.Parallel()
	server := testenv.S3(t)
	lists := map[string]func(r *http.Request) bool{
		"of uploads":  func(r *http.Request) bool { return r.URL.Query().Has("uploads") },
		"of versions": func(r *http.Request) bool { return r.URL.Query().Has("versions") },
		"of objects":  func(r *http.Request) bool { return r.URL.Query().Has("versions") || r.URL.Query().Has("list-type") },
	}
	for name, list := range lists {
		for _, status := range []int{http.StatusServiceUnavailable, http.StatusNotImplemented} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				t.Parallel()
				bucket := server.Bucket(t)
				client := answers(t, server, func(r *http.Request) (int, string) {
					if r.Method == http.MethodGet && list(r) {
						return status, `<Error><Code>Fails</Code><Message>It fails.</Message></Error>`
					}
					return 0, ""
				})
				report, err := probe.Run(t.Context(), client, probe.Config{Bucket: bucket, Rounds: 1, Parallel: 2, Transport: transport(t)})
				if err != nil {
					t.Fatal(err)
				}
				// All uploads are known, and where there are no versions the objects are listed.
				seen := status == http.StatusNotImplemented && name != "of objects"
				if says := len(report.Left) > 0; says == seen {
					t.Errorf("left behind, as it says: %q", report.Left)
				}
				for object := range server.Client(t).ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
					t.Errorf("left behind: %q %v", object.Key, object.Err)
				}
			})
		}
	}
}
