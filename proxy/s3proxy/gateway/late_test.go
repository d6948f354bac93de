package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1/http1test"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/s3xml"
)

// lateAnswer is what a client gets of an act that waits for the first blank
// before it ends, or does not wait.
func lateAnswer(t *testing.T, waits bool, doc s3xml.Document, failed error) (*http.Response, string) {
	t.Helper()
	res, body, err := answer(t, waits, doc, failed, (*exchange).late)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

type answerer func(x *exchange, patience time.Duration, act func() (s3xml.Document, error)) error

func answer(t *testing.T, waits bool, doc s3xml.Document, failed error, by answerer) (*http.Response, string, error) {
	t.Helper()
	s := newSite(t)
	g, err := New(Config{
		Upstream: Upstream{Host: s.server.Endpoint(), Region: "us-east-1", AccessKey: "a", SecretKey: "b", Transport: &http.Transport{}},
		Log:      discard(), Metrics: countless(), MaxBodyTime: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	blank := make(chan struct{})
	addr := http1test.Start(t, func(w *http1.Response, r *http.Request) {
		x := g.begin(w, r)
		defer x.end()
		every := time.Hour
		if waits {
			every = time.Millisecond
		}
		if err := by(x, every, func() (s3xml.Document, error) {
			if waits {
				<-blank
			}
			return doc, failed
		}); err != nil {
			x.refuse(err)
		}
	})
	res, err := http.Get("http://" + addr + "/b/k")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var begin [64]byte
	n := 0
	if waits { // the client sees it before the act has ended
		for !strings.HasSuffix(string(begin[:n]), "?>\n   ") {
			if _, err := io.ReadFull(res.Body, begin[n:n+1]); err != nil {
				t.Fatal(err)
			}
			n++
		}
		close(blank)
	}
	rest, err := io.ReadAll(res.Body)
	return res, string(begin[:n]) + string(rest), err
}

func TestLate(t *testing.T) {
	t.Parallel()
	doc := s3xml.CreateUpload{Bucket: "b", Key: "k", UploadID: "u"}
	no := refusal.New(refusal.NoSuchUpload, "no such upload")
	for _, waits := range []bool{false, true} {
		res, body := lateAnswer(t, waits, doc, nil)
		if res.StatusCode != http.StatusOK || strings.ReplaceAll(body, "\n ", "\n") != string(s3xml.Encode(doc)) && !waits {
			t.Errorf("waits %v: %d %q", waits, res.StatusCode, body)
		}
		if !strings.HasPrefix(body, "<?xml") || !strings.HasSuffix(body, string(s3xml.Append(nil, doc))) || res.Header.Get("Content-Type") != "application/xml" {
			t.Errorf("waits %v: %q", waits, body)
		}
		res, body = lateAnswer(t, waits, nil, no)
		want := http.StatusNotFound
		if waits {
			want = http.StatusOK
		}
		if res.StatusCode != want || !strings.Contains(body, "<Error><Code>NoSuchUpload</Code>") {
			t.Errorf("waits %v: %d %q", waits, res.StatusCode, body)
		}
		if _, body = lateAnswer(t, waits, nil, errors.New("secret of the store")); strings.Contains(body, "secret") || !strings.Contains(body, "<Error>") {
			t.Errorf("waits %v: %q", waits, body)
		}
	}
}

// Where no client looks for an error in a 200, an answer that cannot be had is broken off.
func TestAwaited(t *testing.T) {
	t.Parallel()
	page := func(x *exchange, patience time.Duration, act func() (s3xml.Document, error)) error {
		return x.awaited(patience, act, nil)
	}
	doc, no := s3xml.ListObjectsV2{Name: "b"}, refusal.New(refusal.NoSuchBucket, "no such bucket")
	for _, waits := range []bool{false, true} {
		if _, body, err := answer(t, waits, doc, nil, page); err != nil || !strings.HasSuffix(body, string(s3xml.Append(nil, doc))) {
			t.Errorf("waits %v: %q, %v", waits, body, err)
		}
		res, body, err := answer(t, waits, doc, no, page)
		if broken := err != nil; broken != waits || !waits && res.StatusCode != http.StatusNotFound || strings.Contains(body, "ListBucketResult") {
			t.Errorf("waits %v: %d %q, %v", waits, res.StatusCode, body, err)
		}
	}
}
