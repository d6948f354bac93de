package s3store

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// A client that sends everything up to ten times sends a write no more often
// than the store wants it, and leaves no upload. A Complete may have left for the
// second time before it is called back, each time that it is wanted.
func TestClientThatRetries(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		transport, err := minio.DefaultTransport(false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.CloseIdleConnections)
		client, err := minio.New(e.link.Endpoint(), &minio.Options{ // region unknown: it asks for that, too
			Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), BucketLookup: minio.BucketLookupPath, Transport: transport,
		})
		if err != nil {
			t.Fatal(err)
		}
		store, err := New(client, Config{Bucket: e.bucket, PartSize: parts.MinSize})
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, store, writer(33), "k", "old")
		if err := store.tested.Uploads(t.Context(), store.parts); err != nil {
			t.Fatal(err)
		}
		put := func(value string) error {
			_, err := store.Put(t.Context(), writer(33), "k", strings.NewReader(value), int64(len(value)), PutOptions{})
			return err
		}
		e.link.DropReply(s3link.Op(s3link.CreateMultipartUpload), 1)
		expect(t, "upload whose creation was sent twice", put(big), nil, guard.Applied)
		writing{value: big}.holdsAnd(t, e, guard.Applied, 1) // of the creation whose reply was lost
		for value, op := range map[string]string{"new": s3link.PutObject, big: s3link.CompleteMultipartUpload} {
			e.link.Forget()
			most := request.MaxTries
			if op == s3link.CompleteMultipartUpload {
				most *= 2
			}
			for n := 1; n <= most; n++ {
				e.link.Answer(s3link.Op(op), n, 503, "SlowDown")
			}
			err := put(value)
			expectUnknown(t, op, err)
			if n := e.link.Count(op); n < request.MaxTries || n > most {
				t.Errorf("%s was sent %d times", op, n)
			}
		}
	})
}

func expectUnknown(tb testing.TB, what string, err error) {
	tb.Helper()
	if err == nil || guard.OutcomeOf(err) != guard.Unknown {
		tb.Errorf("%s: %v (%v)", what, err, guard.OutcomeOf(err))
	}
}
