package testenv_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

func putS3(ctx context.Context, client *minio.Client, bucket, key, content string, opts minio.PutObjectOptions) error {
	_, err := client.PutObject(ctx, bucket, key, strings.NewReader(content), int64(len(content)), opts)
	return err
}

func getS3(t *testing.T, client *minio.Client, bucket, key string) string {
	t.Helper()
	core := minio.Core{Client: client}
	body, _, _, err := core.GetObject(t.Context(), bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return minio.ToErrorResponse(err).Code
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		t.Errorf("get %q: %v", key, err)
	}
	return string(content)
}

func TestS3(t *testing.T) {
	t.Parallel()
	testenv.EachS3(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		bucket, link := s.Bucket(t), s.Link(t)
		client := s.ClientAt(t, link.Endpoint())
		core := minio.Core{Client: client}
		var create minio.PutObjectOptions
		create.SetMatchETagExcept("*")
		if err := putS3(t.Context(), client, bucket, "a", "1", create); err != nil {
			t.Fatal(err)
		}
		if err := putS3(t.Context(), client, bucket, "a", "2", create); minio.ToErrorResponse(err).Code != "PreconditionFailed" {
			t.Errorf("second create: %v", err)
		}
		if got := getS3(t, client, bucket, "a"); got != "1" {
			t.Errorf("a is %q", got)
		}
		id, err := core.NewMultipartUpload(t.Context(), bucket, "m", minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		part, err := core.PutObjectPart(t.Context(), bucket, "m", id, 1, strings.NewReader("12345"), 5, minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := core.CompleteMultipartUpload(t.Context(), bucket, "m", id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for object := range client.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{}) {
			keys = append(keys, object.Key)
		}
		if err := client.RemoveObject(t.Context(), bucket, "m", minio.RemoveObjectOptions{}); err != nil {
			t.Error(err)
		}
		if !slices.Equal(keys, []string{"a", "m"}) {
			t.Errorf("listed %q", keys)
		}
		want := []string{
			"PutObject", "PutObject", "GetObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "ListObjects", "DeleteObject",
		}
		if got := link.Ops(); !slices.Equal(got, want) || link.Count() != len(want) || link.Count("PutObject", "UploadPart") != 3 {
			t.Errorf("requests: %v", got)
		}
	})
}

// What a signature covers passes the link as it is.
func TestS3LinkKeepsKeys(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	bucket, link := s.Bucket(t), s.Link(t)
	client := s.ClientAt(t, link.Endpoint())
	for _, key := range []string{"a b", "a+b", "a%2Fb", "ü~/ẞ", "a=b:c", "x/y?z&q"} {
		if err := putS3(t.Context(), client, bucket, key, key, minio.PutObjectOptions{}); err != nil {
			t.Errorf("put %q: %v", key, err)
		}
		if got := getS3(t, s.Client(t), bucket, key); got != key {
			t.Errorf("get %q: %q", key, got)
		}
		if r := link.Requests(); r[len(r)-1].Key != key {
			t.Errorf("the link reads %q as %q", key, r[len(r)-1].Key)
		}
	}
}

func TestS3LinkFaults(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	bucket, link := s.Bucket(t), s.Link(t)
	client, direct := s.ClientAt(t, link.Endpoint()), s.Client(t)
	puts := s3link.Op(s3link.PutObject)

	link.DropReply(puts, 2)
	if err := putS3(t.Context(), client, bucket, "drop", "1", minio.PutObjectOptions{}); err != nil {
		t.Errorf("the first: %v", err)
	}
	err := putS3(t.Context(), client, bucket, "drop", "2", minio.PutObjectOptions{})
	if err == nil || minio.ToErrorResponse(err).StatusCode != 0 {
		t.Errorf("a lost reply: %v", err)
	}
	if got := getS3(t, direct, bucket, "drop"); got != "2" {
		t.Errorf("after a lost reply: %q", got)
	}

	link.Answer(puts, 1, http.StatusConflict, "ConditionalRequestConflict")
	err = putS3(t.Context(), client, bucket, "answer", "1", minio.PutObjectOptions{})
	if minio.ToErrorResponse(err).Code != "ConditionalRequestConflict" || getS3(t, direct, bucket, "answer") != "NoSuchKey" {
		t.Errorf("answered in the server's place: %v", err)
	}

	link.SpoilReply(puts, 1, http.StatusInternalServerError, "InternalError")
	err = putS3(t.Context(), client, bucket, "spoil", "1", minio.PutObjectOptions{})
	if minio.ToErrorResponse(err).Code != "InternalError" || getS3(t, direct, bucket, "spoil") != "1" {
		t.Errorf("a spoilt reply: %v", err)
	}

	link.CutBody(puts, 1, 1<<20)
	if err := putS3(t.Context(), client, bucket, "cut", strings.Repeat("x", 3<<20), minio.PutObjectOptions{}); err == nil {
		t.Error("a body that was cut: no error")
	}
	if got := getS3(t, direct, bucket, "cut"); got != "NoSuchKey" {
		t.Errorf("a body that was cut is there, %d bytes", len(got))
	}
	if err := putS3(t.Context(), client, bucket, "after", "1", minio.PutObjectOptions{}); err != nil {
		t.Errorf("after all faults: %v", err)
	}
}

// A request arrives when its client has long given up.
func TestS3LinkHolds(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	bucket, link := s.Bucket(t), s.Link(t)
	client, direct := s.ClientAt(t, link.Endpoint()), s.Client(t)
	held := link.Hold(s3link.Op(s3link.PutObject), 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	large := strings.Repeat("late", 300<<10)
	go func() { ended <- putS3(ctx, client, bucket, "k", large, minio.PutObjectOptions{}) }()
	select {
	case <-held.Taken():
	case <-time.After(time.Minute):
		t.Fatal("not taken")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client ends with %v", err)
	}
	if err := putS3(t.Context(), client, bucket, "k", "early", minio.PutObjectOptions{}); err != nil {
		t.Errorf("the next one: %v", err)
	}
	for range 2 {
		if status, answer, err := held.Deliver(t.Context()); status != http.StatusOK || err != nil {
			t.Errorf("delivered: %d %s, %v", status, answer, err)
		}
	}
	if got := getS3(t, direct, bucket, "k"); got != large {
		t.Errorf("the server has %d bytes", len(got))
	}

	abandoned := link.Hold(s3link.Op(s3link.DeleteObject), 1)
	go func() { ended <- client.RemoveObject(t.Context(), bucket, "k", minio.RemoveObjectOptions{}) }()
	<-abandoned.Taken()
	abandoned.Abandon()
	if err := <-ended; err == nil || minio.ToErrorResponse(err).StatusCode != 0 {
		t.Errorf("abandoned: %v", err)
	}
	if status, _, err := abandoned.Deliver(t.Context()); status != http.StatusNoContent || err != nil {
		t.Errorf("delivered: %d, %v", status, err)
	}
}

func TestS3Restart(t *testing.T) {
	t.Parallel()
	s := testenv.StartS3(t)
	bucket, client := s.Bucket(t), s.Client(t)
	if err := putS3(t.Context(), client, bucket, "k", "v", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	if err := putS3(t.Context(), client, bucket, "k", "w", minio.PutObjectOptions{}); err == nil {
		t.Error("a killed server takes writes")
	}
	s.Restart(t)
	if got := getS3(t, client, bucket, "k"); got != "v" {
		t.Errorf("after a restart: %q", got)
	}
	s.Freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := putS3(ctx, client, bucket, "k", "w", minio.PutObjectOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server: %v", err)
	}
	s.Thaw(t)
	if got := getS3(t, s.Client(t), bucket, "k"); got != "v" && got != "w" {
		t.Errorf("after a thaw: %q", got)
	}
}
