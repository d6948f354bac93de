package s3store

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3ref"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
)

// onReference returns a store on the reference server with these flaws.
func onReference(tb testing.TB, flaws s3ref.Flaws, c Config) *Store {
	tb.Helper()
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(transport.CloseIdleConnections)
	client, err := minio.New(s3ref.New(tb, flaws).Endpoint(), &minio.Options{
		Creds: credentials.NewStaticV4("key", "secret", ""), Region: "us-east-1", MaxRetries: 1, Transport: transport,
	})
	if err != nil {
		tb.Fatal(err)
	}
	c.Bucket = "bucket"
	s, err := New(client, c)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// I5: a store that ignores a condition, or does not have it, is not written to.
func TestStoresThatIgnoreConditions(t *testing.T) {
	t.Parallel()
	for _, condition := range []string{
		"PutObject If-Match", "PutObject If-None-Match", "CompleteMultipartUpload If-Match", "CompleteMultipartUpload If-None-Match",
	} {
		for name, flaws := range map[string]s3ref.Flaws{
			"ignores ": {Ignores: []string{condition}},
			"has no ":  {Unimplemented: []string{condition}},
		} {
			t.Run(name+condition, func(t *testing.T) {
				t.Parallel()
				s := onReference(t, flaws, Config{PartSize: parts.MinSize})
				_, err := s.Put(t.Context(), writer(33), "k", strings.NewReader(big), int64(len(big)), PutOptions{})
				expect(t, "upload", err, guard.ErrUnsupported, guard.Refused)
				_, err = s.Put(t.Context(), writer(33), "small", strings.NewReader("v"), 1, PutOptions{})
				if strings.HasPrefix(condition, "PutObject") {
					expect(t, "put", err, guard.ErrUnsupported, guard.Refused)
					expect(t, "adoption", s.Adopt(t.Context(), "orders", "j"), guard.ErrUnsupported, guard.Refused)
				} else if err != nil {
					t.Errorf("put, which is sound here: %v", err)
				}
			})
		}
	}
	s := onReference(t, s3ref.Flaws{}, Config{PartSize: parts.MinSize})
	if _, err := s.Put(t.Context(), writer(33), "k", strings.NewReader(big), int64(len(big)), PutOptions{}); err != nil {
		t.Errorf("a store without a flaw: %v", err)
	}
}

// A store that answers 409 while another write is under way: it is looked at
// again, and nothing is lost.
func TestConflicts(t *testing.T) {
	t.Parallel()
	s := onReference(t, s3ref.Flaws{Conflicts: true}, Config{})
	mustClaim(t, s, writer(33))
	mustPut(t, s, writer(33), "counter", "0")
	const writers, increments = 8, 20
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { errs[i] = increment(t.Context(), s, writer(33), increments) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	expectValue(t, s, writer(33), "counter", fmt.Sprint(writers*increments))
	// Without a condition each is done in turn, whoever comes first.
	for i := range writers {
		all.Go(func() {
			_, errs[i] = s.Put(t.Context(), writer(33), "k", strings.NewReader(fmt.Sprint(i)), 1, PutOptions{})
		})
	}
	all.Wait()
	for _, err := range errs {
		expect(t, "put beside others", err, nil, guard.Applied)
	}
}
