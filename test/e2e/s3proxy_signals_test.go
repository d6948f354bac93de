package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// TestS3ProxySignals: a process that is stopped, killed or told to end in the
// middle of a request has not done what it should not, and says what it has done.
func TestS3ProxySignals(t *testing.T) {
	t.Parallel()
	eachS3Site(t, map[string]func(*testing.T, *s3site){
		"stopped in a body":        testS3StoppedInBody,
		"stopped, request on way":  testS3StoppedOnWay,
		"killed in a PUT":          testS3KilledInPut,
		"killed in a part":         testS3KilledInPart,
		"killed in a Complete":     testS3KilledInComplete,
		"killed, then overtaken":   testS3KilledAndOvertaken,
		"drained in an upload":     testS3DrainedInUpload,
		"drained in a download":    testS3DrainedInDownload,
		"upstream cut in the body": testS3UpstreamCut,
	})
}

// A process is stopped while it passes a body on, and the next holder writes
// through the other one. When it goes on the old write is refused and told so (I1).
func testS3StoppedInBody(t *testing.T, s *s3site) {
	proxies := s.two()
	for i, key := range []string{"there", "new"} {
		old, next := proxies[0].client(int64(33+2*i)), proxies[1].client(int64(34+2*i))
		if key == "there" {
			s.must("put", put(t.Context(), old, s.bucket, key, "by the old holder"))
		}
		busy := s.slowly(old, key, 64<<20)
		s.must("SIGSTOP", proxies[0].Freeze())
		s.must("the next holder's put", put(t.Context(), next, s.bucket, key, "by the next"))
		s.must("SIGCONT", proxies[0].Thaw())
		busy.rest()
		s.refused(key+": the old holder's put", <-busy.done, "FenceTokenStale")
		s.holds(key, "by the next")
	}
}

// The request is whole and on its way to the server when its process stops.
// It arrives late, is not carried out, and the client is told that nobody knows,
// for that is so: the process saw no answer. The same request again is refused.
func testS3StoppedOnWay(t *testing.T, s *s3site) {
	proxies := []*s3proxy{s.proxy(s.link.Endpoint(), ""), s.proxy(s.server.Endpoint(), "")}
	old, next := proxies[0].client(33), proxies[1].client(34)
	s.must("put", put(t.Context(), old, s.bucket, "k", "by 33"))
	held := s.link.Hold(s3link.Op(s3link.PutObject), 1)
	done := make(chan error, 1)
	go func() { done <- put(t.Context(), old, s.bucket, "k", "by 33, late") }()
	<-held.Taken()
	s.must("SIGSTOP", proxies[0].Freeze())
	s.must("the next holder's put", put(t.Context(), next, s.bucket, "k", "by 34"))
	s.late(held)
	s.holds("k", "by 34")
	s.must("SIGCONT", proxies[0].Thaw())
	held.Abandon()
	s.refused("the late put", <-done, "InternalError")
	s.refused("the put, again", put(t.Context(), old, s.bucket, "k", "by 33, late"), "FenceTokenStale")
	s.late(held)
	s.holds("k", "by 34")
	s.must("the next holder's next put", put(t.Context(), next, s.bucket, "k", "by 34 too"))
}

func (s *s3site) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// late delivers a request that comes too late.
func (s *s3site) late(held *s3link.Held) {
	s.t.Helper()
	status, answer, err := held.Deliver(s.t.Context())
	// versitygw says 200 of the Complete of an upload that is gone.
	if err != nil || status != 412 && status != 404 && !strings.Contains(answer, "<CompleteMultipartUploadResult") {
		s.t.Errorf("the late request: %d %s, %v", status, answer, err)
	}
}

// killed starts a request through a process whose way to the server holds the n-th
// of an operation, and kills it then.
func (s *s3site) killed(p *s3proxy, op string, request func() error) *s3link.Held {
	s.t.Helper()
	held := s.link.Hold(s3link.Op(op), 1)
	done := make(chan error, 1)
	go func() { done <- request() }()
	<-held.Taken()
	p.End(0)
	s.refused("a process is killed in the middle of "+op, <-done, "none")
	return held
}

// What became of a PUT nobody knows when its process is killed. The same again,
// through the other process, writes once, whether the first has arrived, will
// arrive, or does not; and so it is when the process is back.
func testS3KilledInPut(t *testing.T, s *s3site) {
	p, other := s.proxy(s.link.Endpoint(), ""), s.proxy(s.server.Endpoint(), "")
	for i, arrives := range []string{"before", "after", "never"} {
		key := "k " + arrives
		s.must("put", put(t.Context(), p.client(33), s.bucket, key, "first"))
		held := s.killed(p, s3link.PutObject, func() error { return put(t.Context(), p.client(33), s.bucket, key, "second") })
		if arrives == "before" {
			if status, answer, err := held.Deliver(t.Context()); status != 200 {
				t.Fatalf("%d %s %v", status, answer, err)
			}
		}
		s.must("the retry", put(t.Context(), other.client(33), s.bucket, key, "second"))
		if arrives == "after" {
			s.late(held)
		}
		s.holds(key, "second")
		p.restart()
		s.must("through the process that is back", put(t.Context(), p.client(33), s.bucket, key, fmt.Sprint("third ", i)))
		if arrives != "never" {
			s.late(held)
		}
		s.holds(key, fmt.Sprint("third ", i))
	}
}

// Uploads go on in another process, and in the one that is back.
func testS3KilledInPart(t *testing.T, s *s3site) {
	ctx := t.Context()
	p, other := s.proxy(s.link.Endpoint(), ""), s.proxy(s.server.Endpoint(), "")
	id := must(p.client(33).NewMultipartUpload(ctx, s.bucket, "k", minio.PutObjectOptions{}))(t)
	one, two := strings.Repeat("1", 5<<20), "the second"
	upload := func(p *s3proxy, number int, data string) (minio.CompletePart, error) {
		part, err := p.client(33).PutObjectPart(ctx, s.bucket, "k", id, number, strings.NewReader(data), int64(len(data)), minio.PutObjectPartOptions{})
		return minio.CompletePart{PartNumber: number, ETag: part.ETag}, err
	}
	held := s.killed(p, s3link.UploadPart, func() error { _, err := upload(p, 1, one); return err })
	parts := []minio.CompletePart{must(upload(other, 1, one))(t), {}}
	p.restart()
	parts[1] = must(upload(p, 2, two))(t)
	must(other.client(33).CompleteMultipartUpload(ctx, s.bucket, "k", id, parts, minio.PutObjectOptions{}))(t)
	if status, answer, err := held.Deliver(ctx); err == nil && status != 404 { // or it hangs up before it has read all
		t.Errorf("the late part: %d %s", status, answer)
	}
	s.holds("k", one+two)
}

func testS3KilledInComplete(t *testing.T, s *s3site) {
	p, other := s.proxy(s.link.Endpoint(), ""), s.proxy(s.server.Endpoint(), "")
	for _, arrives := range []string{"before", "after", "never"} {
		key := "k " + arrives
		s.must("put", put(t.Context(), p.client(33), s.bucket, key, "first"))
		id, part := s.upload(p.client(33), key, "second")
		complete := func(p *s3proxy) error {
			_, err := p.client(33).CompleteMultipartUpload(t.Context(), s.bucket, key, id, []minio.CompletePart{part}, minio.PutObjectOptions{})
			return err
		}
		held := s.killed(p, s3link.CompleteMultipartUpload, func() error { return complete(p) })
		if arrives == "before" {
			if status, answer, err := held.Deliver(t.Context()); status != 200 {
				t.Fatalf("%d %s %v", status, answer, err)
			}
		}
		s.must("the retry", complete(other))
		if arrives == "after" {
			s.late(held)
		}
		s.holds(key, "second")
		p.restart()
		s.must("again, through the process that is back", complete(p))
		s.must("put", put(t.Context(), p.client(33), s.bucket, key, "third"))
		if arrives != "never" {
			s.late(held)
		}
		s.holds(key, "third")
	}
}

// What a killed process has left on the way arrives after the next holder came.
func testS3KilledAndOvertaken(t *testing.T, s *s3site) {
	p, other := s.proxy(s.link.Endpoint(), ""), s.proxy(s.server.Endpoint(), "")
	for n, absent := range []bool{false, true} {
		key, old, next := fmt.Sprint("k", n), int64(33+2*n), int64(34+2*n)
		if !absent {
			s.must("put", put(t.Context(), p.client(old), s.bucket, key, "first"))
		}
		held := s.killed(p, s3link.PutObject, func() error { return put(t.Context(), p.client(old), s.bucket, key, "late") })
		c := other.client(next)
		s.must("the next holder's delete", c.RemoveObject(t.Context(), s.bucket, key, minio.RemoveObjectOptions{}))
		s.late(held)
		s.holds(key, "")
		p.restart()
		s.refused("the old holder's retry", put(t.Context(), p.client(old), s.bucket, key, "late"), "FenceTokenStale")
		s.must("the next holder", put(t.Context(), p.client(next), s.bucket, key, "new"))
		s.late(held)
		s.holds(key, "new")
	}
}

// A body that cannot be sent again is sent once: the way to the server is cut in
// the middle of it, and nothing is stored, nothing is repeated, and the client is
// told so.
func testS3UpstreamCut(t *testing.T, s *s3site) {
	p := s.proxy(s.link.Endpoint(), "")
	c := p.client(33)
	s.must("put", put(t.Context(), c, s.bucket, "k", "before"))
	before := s.link.Count(s3link.PutObject)
	s.link.CutBody(s3link.Op(s3link.PutObject), 1, 48<<20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := c.PutObject(ctx, s.bucket, "k", &pattern{size: 64 << 20}, 64<<20, "", "", minio.PutObjectOptions{DisableContentSha256: true})
	if code := codeOf(err); code != "InternalError" && code != "FenceUnavailable" && code != "SlowDown" {
		t.Errorf("%v", err)
	}
	if n := s.link.Count(s3link.PutObject) - before; n != 1 {
		t.Errorf("it was sent %d times", n)
	}
	s.holds("k", "before")
	s.must("the next put", put(t.Context(), c, s.bucket, "k", "after"))
}
