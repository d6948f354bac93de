package nemesis_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/chaos/nemesis"
)

// writer writes objects to S3 in both ways, and repeats nothing.
type writer struct {
	minio.Core

	bucket string
}

func newWriter(t *testing.T, server *testenv.S3Server, endpoint string) *writer {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	core, err := minio.NewCore(endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(server.AccessKey, server.SecretKey, ""),
		Region: server.Region, BucketLookup: minio.BucketLookupPath, Transport: transport, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &writer{Core: *core, bucket: server.Bucket(t)}
}

func (w *writer) put(t *testing.T) error {
	t.Helper()
	body := strings.Repeat("x", 100)
	_, err := w.PutObject(t.Context(), w.bucket, "put", strings.NewReader(body), int64(len(body)), "", "", minio.PutObjectOptions{})
	return err
}

func (w *writer) complete(t *testing.T) error {
	t.Helper()
	id, err := w.NewMultipartUpload(t.Context(), w.bucket, "parts", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	part, err := w.PutObjectPart(t.Context(), w.bucket, "parts", id, 1, strings.NewReader("x"), 1, minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.CompleteMultipartUpload(t.Context(), w.bucket, "parts", id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{})
	return err
}

// TestOfRequests: each fault is one of a single request, a PUT or a Complete, and
// of the kind in its name.
func TestOfRequests(t *testing.T) {
	t.Parallel()
	server := testenv.StartS3(t)
	link := testenv.NewS3Link(t, server.Endpoint())
	w := newWriter(t, server, link.Endpoint())
	faults := nemesis.OfRequests("S3", link, 1)
	if len(faults) != 8 {
		t.Errorf("%d faults", len(faults))
	}
	for _, f := range faults {
		writes := []func(*testing.T) error{w.put, w.complete}
		if strings.HasSuffix(f.Name, "(Complete)") {
			writes[0], writes[1] = writes[1], writes[0]
		}
		end, ok := f.Begin(t, rand.New(rand.NewPCG(1, 2)))
		if !ok || (end != nil) != (f.Longest > 0) {
			t.Fatalf("%s: %v, ends: %v, for %v", f.Name, ok, end != nil, f.Longest)
		}
		struck := 0
		for range 3 {
			if writes[0](t) != nil {
				struck++
			}
			if err := writes[1](t); err != nil {
				t.Errorf("%s meets a write of the other kind: %v", f.Name, err)
			}
		}
		if end != nil {
			end()
		}
		if struck != 1 {
			t.Errorf("%s meets %d writes", f.Name, struck)
		}
		if f.Longest > time.Minute {
			t.Errorf("%s lasts %v", f.Name, f.Longest)
		}
	}
}
