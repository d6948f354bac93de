package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
)

// s3load are writers that read an object, add a line of their own, and write it
// back under the ETag that they read. What each was told of its line is kept, and
// the objects tell in the end what was written, and in which order.
type s3load struct {
	site          *s3site
	proxies       []*s3proxy
	keys, writers int

	begun    atomic.Int64 // the highest number that has begun
	written  atomic.Int64 // lines that were acknowledged
	unheard  atomic.Int64 // requests without an answer, or whose fate nobody knew
	mu       sync.Mutex
	fates    map[string]s3fate
	problems []string
}

type s3fate int

const (
	s3refused s3fate = iota
	s3written
	s3unknown
)

func newS3Load(s *s3site, proxies []*s3proxy, keys, writers int) *s3load {
	return &s3load{site: s, proxies: proxies, keys: keys, writers: writers, fates: make(map[string]s3fate)}
}

// hold has the writers of a number write until they are refused, or stop is
// closed.
func (l *s3load) hold(n int64, stop <-chan struct{}) {
	l.begun.Store(n)
	clients := make([]minio.Core, len(l.proxies))
	for i, p := range l.proxies {
		clients[i] = p.client(n)
	}
	atOnce(l.writers, func(i int) {
		own := slices.Concat(clients[i%len(clients):], clients[:i%len(clients)])
		for seq := 0; ; seq++ {
			select {
			case <-stop:
				return
			default:
			}
			line := fmt.Sprintf("%d %d %d", n, i, seq)
			fate := l.add(own, fmt.Sprint("k", (i+seq)%l.keys), line)
			l.mu.Lock()
			l.fates[line] = fate
			l.mu.Unlock()
			if fate != s3written {
				if l.begun.Load() == n {
					l.problem("%s: the current holder was given up: %d", line, fate)
				}
				return
			}
			l.written.Add(1)
		}
	})
}

func (l *s3load) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// add adds a line to a key, through one client after the other while they do not
// answer.
func (l *s3load) add(clients []minio.Core, key, line string) s3fate {
	ctx, cancel := context.WithTimeout(l.site.t.Context(), 2*time.Minute)
	defer cancel()
	refused := s3refused
	for try := 0; ctx.Err() == nil; try++ {
		c := clients[try/8%len(clients)]
		err := l.addOnce(ctx, c, key, line)
		switch code := codeOf(err); code {
		case "":
			return s3written
		case "FenceTokenStale":
			return refused
		case minio.PreconditionFailed, "SlowDown": // another was first, and nothing was written
		case "InternalError", "none", "FenceUnavailable":
			if code != "FenceUnavailable" {
				refused = s3unknown
				l.unheard.Add(1)
			}
			try |= 7 // by the other way
		default:
			l.problem("%s: %v", line, err)
			return s3unknown
		}
		pause(ctx, time.Duration(1+try%5)*time.Millisecond)
	}
	l.problem("%s: not within two minutes", line)
	return s3unknown
}

func (l *s3load) addOnce(ctx context.Context, c minio.Core, key, line string) error {
	value, etag, err := get(ctx, c, l.site.bucket, key)
	if err != nil || strings.Contains("\n"+value, "\n"+line+"\n") {
		return err // the latter: the answer was lost, the line was not
	}
	condition := [2]string{"If-Match", etag}
	if etag == "" {
		condition = [2]string{"If-None-Match", "*"}
	}
	return put(ctx, c, l.site.bucket, key, value+line+"\n", condition)
}

// pause gives way to others: who was there first is to get through.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// await waits until so many more lines were written.
func (l *s3load) await(more int64) {
	l.site.t.Helper()
	want := l.written.Load() + more
	l.site.eventually(fmt.Sprintf("%d more lines", more), func() bool { return l.written.Load() >= want })
}

// check reads the bucket past the proxies: every line that was acknowledged is
// there once, none that was refused is, and none of a lower number stands behind
// one of a higher (I1, I2).
func (l *s3load) check() {
	t := l.site.t
	t.Helper()
	store := l.site.store()
	seen := map[string]bool{}
	for i := range l.keys {
		var highest int64
		for line := range strings.Lines(l.site.stored(store, fmt.Sprint("k", i))) {
			line = strings.TrimSuffix(line, "\n")
			if seen[line] {
				t.Errorf("%q is there twice", line)
			}
			seen[line] = true
			if fate, known := l.fates[line]; !known || fate == s3refused {
				t.Errorf("%q is there, and was refused", line)
			}
			first, _, _ := strings.Cut(line, " ")
			number := must(strconv.ParseInt(first, 10, 64))(t)
			if number < highest {
				t.Errorf("%q of a lower number was written after %d (I1)", line, highest)
			}
			highest = max(highest, number)
		}
	}
	for line, fate := range l.fates {
		if fate == s3written && !seen[line] {
			t.Errorf("%q was acknowledged, and is lost", line)
		}
	}
	for _, p := range l.problems {
		t.Error(p)
	}
	for _, p := range l.proxies {
		if log := p.log(); strings.Contains(log, "panic") {
			t.Errorf("the log has a panic:\n%s", log)
		}
	}
	t.Logf("%d lines were written, %d requests had no answer that tells", l.written.Load(), l.unheard.Load())
}
