package s3proxy

import (
	"context"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// begun is an upload of one part that waits for its end.
type begun struct {
	holder  minio.Core
	key, id string
	parts   []minio.CompletePart
}

func (e *env) begin(t *testing.T, holder minio.Core, key, value string) *begun {
	t.Helper()
	b := &begun{holder: holder, key: key}
	var err error
	if b.id, err = holder.NewMultipartUpload(t.Context(), e.bucket, key, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	b.part(t, e, value)
	return b
}

func (b *begun) part(t *testing.T, e *env, value string) {
	t.Helper()
	part, err := b.holder.PutObjectPart(t.Context(), e.bucket, b.key, b.id, 1, strings.NewReader(value), int64(len(value)), minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.parts = []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}
}

func (b *begun) complete(ctx context.Context, e *env) error {
	_, err := b.holder.CompleteMultipartUpload(ctx, e.bucket, b.key, b.id, b.parts, minio.PutObjectOptions{})
	return err
}

// A Complete of an old holder's that the network keeps, and delivers once and
// again when a newer holder has written, or deleted, what it named: it changes
// nothing, whether there was an object before or none, and if part 1 has come
// again meanwhile (I1).
func TestAttackLateComplete(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	newer := e.start(t)
	for _, before := range []string{"", "before"} {
		for _, deletes := range []bool{false, true} {
			link := testenv.NewS3Link(t, e.store.Endpoint())
			c := e.config()
			c.Upstream.Endpoint = "http://" + link.Endpoint()
			resource := token(33)
			resource.Resource = before + map[bool]string{true: "d", false: "w"}[deletes]
			older, key := start(t, c).app(t, resource), "k"+resource.Resource
			if before != "" {
				put(t, older, e.bucket, key, before)
			}
			b := e.begin(t, older, key, "old")
			held := link.Hold(s3link.Op(s3link.CompleteMultipartUpload), 1)
			told := make(chan error, 1)
			go func() { told <- b.complete(t.Context(), e) }()
			<-held.Taken()
			b.part(t, e, "old again")
			resource.Number = 34
			holder := newer.app(t, resource)
			put(t, holder, e.bucket, key, "new")
			if deletes {
				if err := holder.RemoveObject(t.Context(), e.bucket, key, minio.RemoveObjectOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if _, _, err := held.Deliver(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			held.Abandon()
			if err := <-told; err == nil {
				t.Errorf("%s: the old holder is told that it has written", key)
			}
			got, err := get(t, holder, e.bucket, key, minio.GetObjectOptions{})
			if deletes && minio.ToErrorResponse(err).Code != minio.NoSuchKey || !deletes && got != "new" {
				t.Errorf("%s holds %q, %v", key, got, err)
			}
			refused(t, "once more", b.complete(t.Context(), e), 412, "FenceTokenStale")
		}
	}
}

// An id is good for one upload of one object under one token, and no longer than
// that token.
func TestAttackReplayedUpload(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p, other := e.start(t), e.start(t)
	holder := p.app(t, token(33))
	b := e.begin(t, holder, "k", "mine")
	if err := b.complete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	left := e.begin(t, holder, "k", "left")
	put(t, other.app(t, token(34)), e.bucket, "k", "new")
	for what, err := range map[string]error{"what was completed": b.complete(t.Context(), e), "what was left": left.complete(t.Context(), e)} {
		refused(t, what, err, 412, "FenceTokenStale")
	}
	left.holder = other.app(t, token(34)) // a newer one of the resource
	refused(t, "another's", left.complete(t.Context(), e), 403, "FenceTokenMissing")
	twin := token(34)
	twin.Holder = "another"
	left.holder = other.app(t, twin)
	refused(t, "another holder's of the number", left.complete(t.Context(), e), 412, "FenceTokenDuplicate")
	expectValue(t, p.app(t), e.bucket, "k", "new")
}

// An adoption ends the uploads of the issuer before, from the new one's first
// write of the key on, and its numbers do not count against the new ones.
func TestAttackUploadAcrossAdoption(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p, other := e.start(t), e.start(t)
	b := e.begin(t, p.app(t, token(33)), "k", "old issuer's")
	store, err := s3store.New(e.bare, s3store.Config{Bucket: e.bucket})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Adopt(t.Context(), "orders", "next"); err != nil {
		t.Fatal(err)
	}
	first := guard.Token{Resource: "orders", Number: 1, Mode: guard.Exclusive, Holder: "h", Issuer: "next"}
	put(t, other.app(t, first), e.bucket, "k", "new issuer's")
	refused(t, "complete", b.complete(t.Context(), e), 412, "FenceTokenForeign")
	_, err = tryPut(t, p.app(t, token(35)), e.bucket, "k", "higher number, old issuer")
	refused(t, "a higher number of the old issuer", err, 412, "FenceTokenForeign")
	b.holder = other.app(t, first)
	refused(t, "by the new issuer's", b.complete(t.Context(), e), 403, "FenceTokenMissing")
	expectValue(t, other.app(t, first), e.bucket, "k", "new issuer's")
}
