package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3ref"
	"github.com/fenceproxy/fenceproxy/stores/s3/probe"
)

// transport is the test's own, so that no connection outlives it.
func transport(t *testing.T) *http.Transport {
	t.Helper()
	own := &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}
	t.Cleanup(own.CloseIdleConnections)
	return own
}

// refClient is a client of a reference server.
func refClient(t *testing.T, s *s3ref.Server) *minio.Client {
	t.Helper()
	client, err := minio.New(s.Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4("k", "s", ""), Region: "us-east-1", Transport: transport(t), MaxRetries: 1,
		BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func mustRun(t *testing.T, client *minio.Client, c probe.Config) *probe.Report {
	t.Helper()
	c.Transport = transport(t)
	report, err := probe.Run(t.Context(), client, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Left) > 0 {
		t.Errorf("left behind: %q", report.Left)
	}
	return report
}

// not are the names of the rows that are not honoured, of those that the framed
// layout rests on or of the others.
func not(report *probe.Report, framed bool) []string {
	var names []string
	for _, row := range report.Rows {
		if row.Framed == framed && row.Result != probe.Honoured {
			names = append(names, row.Name)
		}
	}
	return names
}

// What the research has found out about each server, and that nothing is left.
func TestServers(t *testing.T) {
	t.Parallel()
	others := map[string][]string{
		"versitygw": {
			"etag/unique",
			"CopyObject/create-existing", "CopyObject/swap-earlier", "CopyObject/swap-absent",
			"DeleteObject/absent", "DeleteObjects/earlier", "DeleteObjects/absent",
		},
	}
	testenv.EachS3(t, func(t *testing.T, s *testenv.S3Server) {
		for _, versioned := range []bool{false, true} {
			t.Run("versioned="+strconv.FormatBool(versioned), func(t *testing.T) {
				t.Parallel()
				bucket, client := s.Bucket(t), s.Client(t)
				if versioned {
					if err := client.EnableVersioning(t.Context(), bucket); err != nil {
						t.Fatal(err)
					}
				}
				testServer(t, client, bucket, others[s.Name()])
			})
		}
	})
}

// testServer expects the rows others, of those that are only reported, not to be
// honoured; nil expects nothing.
func testServer(t *testing.T, client *minio.Client, bucket string, others []string) {
	t.Helper()
	report := mustRun(t, client, probe.Config{Bucket: bucket})
	if err := report.Framed(); err != nil {
		t.Error(err)
	}
	if got := not(report, false); others != nil && !slices.Equal(got, others) {
		t.Errorf("not honoured: %q, want %q", got, others)
	}
	for object := range client.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		t.Errorf("left behind: %q %q %v", object.Key, object.VersionID, object.Err)
	}
	for upload := range client.ListIncompleteUploads(t.Context(), bucket, "", true) {
		t.Errorf("left behind: upload of %q %v", upload.Key, upload.Err)
	}
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	report := &probe.Report{Endpoint: "http://h", Bucket: "b", Took: time.Second, Rows: []probe.Row{
		{Name: "PutObject/x", Operation: "PutObject", Asked: "a", Answer: "done", Result: probe.Honoured, Framed: true},
		{Name: "y", Operation: "CopyObject", Asked: "a", Answer: "ignored", Result: probe.Violated},
	}}
	want := `{"endpoint":"http://h","bucket":"b","framed":true,"milliseconds":1000,"checks":[` +
		`{"name":"PutObject/x","operation":"PutObject","asked":"a","answer":"done","result":"honoured","framed":true},` +
		`{"name":"y","operation":"CopyObject","asked":"a","answer":"ignored","result":"violated","framed":false}],"left":[]}`
	if got, err := json.Marshal(report); err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	for _, result := range []probe.Result{probe.Unknown, probe.Violated} {
		report.Rows[0].Result = result
		var unfit *probe.UnfitError
		if err := report.Framed(); !errors.As(err, &unfit) || len(unfit.Rows) != 1 || !strings.Contains(err.Error(), `bucket "b"`) {
			t.Errorf("verdict with %v: %v", result, err)
		}
	}
	if err := (&probe.Report{Rows: report.Rows[1:]}).Framed(); err == nil {
		t.Error("a report without what the layout rests on: fit")
	}
}

// Nothing is left of a probe that is interrupted, wherever that is.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := s3ref.New(t, s3ref.Flaws{})
	for _, after := range []int{1, 7, 40, 120, 300} {
		t.Run(strconv.Itoa(after), func(t *testing.T) {
			t.Parallel()
			bucket := "bucket" + strconv.Itoa(after)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			stop := errors.New("stopped by the test")
			n := make(chan struct{}, after)
			client, err := minio.New(server.Endpoint(), &minio.Options{
				Creds: credentials.NewStaticV4("k", "s", ""), Region: "us-east-1", MaxRetries: 1, BucketLookup: minio.BucketLookupPath,
				Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					select {
					case n <- struct{}{}:
					default:
						cancel(stop)
					}
					return http.DefaultTransport.RoundTrip(r)
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
			if _, err := probe.Run(ctx, client, probe.Config{Bucket: bucket, Transport: transport(t)}); !errors.Is(err, stop) {
				t.Errorf("error: %v", err)
			}
			for _, key := range server.Keys() {
				if strings.HasPrefix(key, bucket+"/") {
					t.Errorf("left behind: %s", key)
				}
			}
		})
	}
}

// A probe removes what a killed one left, a day later, and touches nothing else.
func TestForgotten(t *testing.T) {
	t.Parallel()
	server := s3ref.New(t, s3ref.Flaws{})
	old, recent := "bucket/"+probe.Prefix+"old/x", "bucket/"+probe.Prefix+"running/x"
	others := []string{"bucket/.fence/marks/x", "bucket/x", recent}
	for _, key := range others {
		server.Put(key, "x", time.Hour)
	}
	server.Put(old, "x", 25*time.Hour)
	server.Put("bucket/.fence/marks/x", "x", 25*time.Hour)
	mustRun(t, refClient(t, server), probe.Config{Bucket: "bucket", Rounds: 1})
	slices.Sort(others)
	if diff := cmp.Diff(others, server.Keys()); diff != "" {
		t.Errorf("there now (-want +got):\n%s", diff)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// One reply that gets lost, or one 503, is no verdict.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := s3ref.New(t, s3ref.Flaws{})
	link := s3link.New(t, server.Endpoint())
	for i := range 10 {
		link.DropReply(s3link.Op(), 3+29*i)
		link.Answer(s3link.Op(), 11+29*i, http.StatusServiceUnavailable, "SlowDown")
	}
	// They are done, and nobody has heard of it.
	link.DropReply(s3link.Op(s3link.DeleteObject), 1)
	link.DropReply(s3link.Op(s3link.CompleteMultipartUpload), 1)
	client, err := minio.New(link.Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4("k", "s", ""), Region: "us-east-1", Transport: transport(t), MaxRetries: 1,
		BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	link.Answer(func(r s3link.Request) bool {
		return r.Op == s3link.DeleteObject && r.Header.Get("If-Match") == "" // of the cleaning up
	}, 2, http.StatusServiceUnavailable, "SlowDown")
	report := mustRun(t, client, probe.Config{Bucket: "bucket", Rounds: 1, Parallel: 8})
	if err := report.Framed(); err != nil {
		t.Error(err)
	}
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

func TestNothingToProbe(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	client := s.Client(t)
	for name, c := range map[string]struct {
		config probe.Config
		says   string
	}{
		"no name":    {probe.Config{}, "Config.Bucket is empty"},
		"one racer":  {probe.Config{Bucket: "b", Parallel: 1}, "too small"},
		"no bucket":  {probe.Config{Bucket: "no-such-bucket"}, "bucket does not exist"},
		"wrong name": {probe.Config{Bucket: "A"}, "Bucket name"},
	} {
		if report, err := probe.Run(t.Context(), client, c.config); report != nil || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of a key that it does not know versitygw says 404, as of an object.
	for _, wrong := range []testenv.S3Server{
		{AccessKey: s.AccessKey, SecretKey: "wrong", Region: s.Region}, {AccessKey: "unknown", SecretKey: s.SecretKey, Region: s.Region},
	} {
		if report, err := probe.Run(t.Context(), wrong.ClientAt(t, s.Endpoint()), probe.Config{Bucket: "bucket"}); err == nil || report != nil {
			t.Errorf("key %q is let in", wrong.AccessKey)
		}
	}
}
