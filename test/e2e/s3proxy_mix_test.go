package e2e_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// s3act is something that was done to a key, with no condition, and what the
// client was told.
type s3act struct {
	key, value string // the value is "" for a delete
	number     int64
	parts      bool // it is an upload
	through    int  // the proxy whose request it was that wrote the key
	begun, end time.Time
	code       string // "" if it was acknowledged
	err        error
}

// maybe reports that nobody knows whether it was done: the server says of any
// upload that is gone that it was completed, so the proxy looks, and another write
// was faster.
func (a *s3act) maybe() bool { return a.parts && a.code == "InternalError" }

// s3mix are two holders that put, delete, copy and upload in parts.
type s3mix struct {
	*s3site

	mu   sync.Mutex
	acts []s3act
	done [2]atomic.Int64 // acts that were acknowledged, of 33 and of 34
}

// do does one act of a kind, in as many requests as it takes.
func (m *s3mix) do(ctx context.Context, first, second minio.Core, kind int, key, value string) error {
	switch kind {
	case 0:
		return first.RemoveObject(ctx, m.bucket, key, minio.RemoveObjectOptions{})
	case 1:
		from := "from " + value
		if err := put(ctx, second, m.bucket, from, value); err != nil {
			return err
		}
		_, err := first.CopyObject(ctx, m.bucket, from, m.bucket, key, nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
		return err
	case 2:
		id, err := second.NewMultipartUpload(ctx, m.bucket, key, minio.PutObjectOptions{})
		if err != nil {
			return err
		}
		part, err := first.PutObjectPart(ctx, m.bucket, key, id, 1, strings.NewReader(value), int64(len(value)), minio.PutObjectPartOptions{})
		if err != nil {
			return err
		}
		_, err = second.CompleteMultipartUpload(ctx, m.bucket, key, id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{})
		return err
	}
	return put(ctx, first, m.bucket, key, value)
}

// hold acts under a number until stop is closed, whatever it is told.
func (m *s3mix) hold(proxies []*s3proxy, number int64, stop <-chan struct{}) {
	const writers, keys = 4, 3
	clients := []minio.Core{proxies[0].client(number), proxies[1].client(number)}
	atOnce(writers, func(i int) {
		for seq := 0; ; seq++ {
			select {
			case <-stop:
				return
			default:
			}
			a := s3act{key: fmt.Sprint("k", (i+seq)%keys), value: fmt.Sprintf("%d-%d-%d", number, i, seq), number: number, begun: time.Now()}
			kind := (i + seq/keys) % 4
			if a.through = i % 2; kind == 2 {
				a.parts, a.through = true, (i+seq)%2
			}
			a.err = m.do(m.t.Context(), clients[i%2], clients[(i+seq)%2], kind, a.key, a.value)
			a.code, a.end = codeOf(a.err), time.Now()
			if kind == 0 {
				a.value = ""
			}
			m.mu.Lock()
			m.acts = append(m.acts, a)
			m.mu.Unlock()
			if a.code == "" {
				m.done[number-33].Add(1)
			}
		}
	})
}

// watch looks at the keys past the proxies until stop is closed: their number
// never goes down (I1).
func (m *s3mix) watch(stop <-chan struct{}) {
	core := minio.Core{Client: m.server.Client(m.t)}
	highest := map[string]int64{}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		key := fmt.Sprint("k", i%3)
		header, found := m.header(core, key)
		if !found {
			continue
		}
		if header.Number < highest[key] {
			m.t.Errorf("%s was written under %d, and then under %d (I1)", key, highest[key], header.Number)
		}
		highest[key] = header.Number
	}
}

func (m *s3mix) header(core minio.Core, key string) (layout.Header, bool) {
	body, info, _, err := core.GetObject(m.t.Context(), m.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return layout.Header{}, false
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return layout.Header{}, false
	}
	header, err := layout.Parse(data[:min(len(data), layout.HeaderSize)], info.Size)
	if err != nil {
		m.t.Errorf("%s: %v", key, err)
	}
	return header, true
}

func testS3Mix(t *testing.T, s *s3site) {
	m := &s3mix{s3site: s}
	proxies := s.two()
	var all, watching sync.WaitGroup
	stop, seen := make(chan struct{}), make(chan struct{})
	watching.Go(func() { m.watch(seen) })
	for n := range m.done {
		all.Go(func() { m.hold(proxies, int64(33+n), stop) })
		s.eventually("they have acted", func() bool { return m.done[n].Load() >= 60 })
	}
	close(stop)
	all.Wait()
	close(seen)
	watching.Wait()
	core := minio.Core{Client: s.server.Client(t)}
	for i := range 3 {
		m.check(core, fmt.Sprint("k", i))
	}
}

// check: once the newer holder has touched the key, every act of the older one is
// refused; and what is there in the end nobody has written over.
func (m *s3mix) check(core minio.Core, key string) {
	t := m.t
	var touched time.Time
	for _, a := range m.acts {
		if a.key == key && a.number == 34 && a.code == "" && (touched.IsZero() || a.end.Before(touched)) {
			touched = a.end
		}
	}
	header, found := m.header(core, key)
	value := m.stored(m.store(), key)
	if !found || touched.IsZero() || header.Number != 34 {
		t.Fatalf("%s holds %q under %d, after 34 wrote", key, value, header.Number)
	}
	var candidates, refused int
	for i := range m.acts {
		a := m.acts[i]
		switch {
		case a.key != key:
		case a.number == 34 && a.code != "" && a.code != "SlowDown" && !a.maybe() && !m.behindOlder(a):
			t.Errorf("the current holder got %s for %q: %v (I3)", a.code, a.value, a.err)
		case a.number == 33 && a.code == "FenceTokenStale":
			refused++
		case a.number == 33 && a.begun.After(touched):
			t.Errorf("%+v was not refused as stale, after 34 wrote", a)
		}
		if a.key == key && a.value == value && (a.code == "" || a.maybe()) && m.last(a) {
			candidates++
		}
	}
	if candidates == 0 {
		t.Errorf("%s holds %q, which is not what was acknowledged last (I2)", key, value)
	}
	t.Logf("%s: 33 was refused %d times", key, refused)
}

// behindOlder reports whether an act of the newer holder was told that an older
// write had come since the holder first acted on the key, as one did that the proxy
// had not told of before (I9): each remembers what the holder has seen through it.
func (m *s3mix) behindOlder(a s3act) bool {
	if a.code != minio.PreconditionFailed {
		return false
	}
	mine := func(c s3act) bool { return c.key == a.key && c.number == a.number && c.through == a.through }
	told := func(c s3act) bool { return mine(c) && (c.code == "" || c.code == minio.PreconditionFailed) }
	seen := a.begun
	for _, c := range m.acts {
		if mine(c) && c.begun.Before(seen) {
			seen = c.begun
		}
	}
	return slices.ContainsFunc(m.acts, func(b s3act) bool {
		if b.key != a.key || b.number >= a.number || b.code != "" && !b.maybe() || b.end.Before(seen) || b.begun.After(a.end) {
			return false
		}
		return !slices.ContainsFunc(m.acts, func(c s3act) bool { return told(c) && c.begun.After(b.end) && c.end.Before(a.begun) })
	})
}

// last reports whether no act began after this one had ended.
func (m *s3mix) last(a s3act) bool {
	for _, b := range m.acts {
		if b.key == a.key && b.code == "" && b.begun.After(a.end) {
			return false
		}
	}
	return true
}
