// Package s3ref is a small S3 server in memory that honours every condition, as
// Amazon's documentation has it, and that can be told not to. It shows what no
// real server at hand does: a store that ignores one condition and no other,
// that checks and writes in two steps, whose reads lag behind, or that answers
// 409 ConditionalRequestConflict. It looks at no signature.
package s3ref

import (
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Flaws are what is wrong with a server. The zero value is a good one.
//
// A condition is named by the operation and the header, "PutObject If-Match"
// say, and what it says of a key that is not there "PutObject If-Match absent".
// Operations with conditions are PutObject, CompleteMultipartUpload, CopyObject
// (If-Match, If-None-Match), DeleteObject and DeleteObjects (If-Match, in the
// latter's ETag element), GetObject (If-Match).
type Flaws struct {
	// Ignores are the conditions that are taken to hold.
	Ignores []string
	// Unimplemented are the conditions that are answered with 501.
	Unimplemented []string
	// NotAtomic are the operations that check in one step and write in another,
	// with room between them for a second request.
	NotAtomic []string
	// Conflicts has a conditional write answered with 409 while another one of
	// the same key is under way.
	Conflicts bool
	// StaleReads is by how much GET, HEAD and listings lag behind writes.
	StaleReads time.Duration
	// StaleConditions is by how much conditions do.
	StaleConditions time.Duration
	// KeepsCut has a PUT whose body breaks off store what has come of it.
	KeepsCut bool
	// ETag makes an ETag, without quotes. Defaults to the MD5 of the content.
	ETag func(content []byte) string
}

// Server is such a server. It has all buckets, empty at first.
type Server struct {
	flaws Flaws
	addr  string

	mu      sync.Mutex
	history map[string][]object // by bucket/key, in the order of the writes
	uploads map[string]*upload  // by id
	busy    map[string]int      // conditional writes between check and write, by bucket/key
	arrived *sync.Cond          // one more is busy, or the wait for it is over
}

// object is what a write or a delete made of a key.
type object struct {
	content []byte
	etag    string
	gone    bool
	at      time.Time
}

// upload is a multipart upload that is neither complete nor aborted.
type upload struct {
	path  string
	parts map[int]object
}

// New starts a server. It ends with the test.
func New(tb testing.TB, flaws Flaws) *Server {
	tb.Helper()
	s := &Server{
		flaws: flaws, history: map[string][]object{}, uploads: map[string]*upload{}, busy: map[string]int{},
	}
	s.arrived = sync.NewCond(&s.mu)
	if s.flaws.ETag == nil {
		s.flaws.ETag = func(content []byte) string {
			sum := md5.Sum(content)
			return hex.EncodeToString(sum[:])
		}
	}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(server.Close)
	s.addr = strings.TrimPrefix(server.URL, "http://")
	return s
}

// Endpoint is the server's host:port. Any keys and any region will do.
func (s *Server) Endpoint() string { return s.addr }

// Put makes an object, bucket/key, that is as old as age.
func (s *Server) Put(path, content string, age time.Duration) {
	o := s.object([]byte(content))
	o.at = time.Now().Add(-age)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history[path] = append(s.history[path], o)
}

// Keys are the keys that are there, of all buckets, each as bucket/key, and the
// unfinished uploads, each as bucket/key?uploadId.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for path := range s.history {
		if s.at(path, 0) != nil {
			keys = append(keys, path)
		}
	}
	for _, u := range s.uploads {
		keys = append(keys, u.path+"?uploadId")
	}
	slices.Sort(keys)
	return keys
}

// at is the state of a key some time ago; nil if it was not there.
func (s *Server) at(path string, ago time.Duration) *object {
	when := time.Now().Add(-ago)
	for _, o := range slices.Backward(s.history[path]) {
		if !o.at.After(when) {
			if o.gone {
				return nil
			}
			return &o
		}
	}
	return nil
}

// failure is an answer other than 2xx.
type failure struct {
	status int
	code   string
}

var (
	errPrecondition   = &failure{http.StatusPreconditionFailed, "PreconditionFailed"}
	errConflict       = &failure{http.StatusConflict, "ConditionalRequestConflict"}
	errNoSuchKey      = &failure{http.StatusNotFound, "NoSuchKey"}
	errNoSuchUpload   = &failure{http.StatusNotFound, "NoSuchUpload"}
	errNotImplemented = &failure{http.StatusNotImplemented, "NotImplemented"}
	errMalformed      = &failure{http.StatusBadRequest, "MalformedXML"}
)

// conditions are what a request says about the state that it acts on.
type conditions struct {
	op                   string
	ifMatch, ifNoneMatch string
}

func conditionsOf(op string, r *http.Request) conditions {
	return conditions{op, r.Header.Get("If-Match"), r.Header.Get("If-None-Match")}
}

// check says whether a state meets the conditions, as far as they are honoured.
func (s *Server) check(c conditions, current *object) *failure {
	if c.ifNoneMatch != "" {
		name := c.op + " If-None-Match"
		switch {
		case slices.Contains(s.flaws.Unimplemented, name):
			return errNotImplemented
		case current != nil && !slices.Contains(s.flaws.Ignores, name):
			return errPrecondition
		}
	}
	if c.ifMatch == "" {
		return nil
	}
	name := c.op + " If-Match"
	switch {
	case slices.Contains(s.flaws.Unimplemented, name):
		return errNotImplemented
	case current == nil && !slices.Contains(s.flaws.Ignores, name+" absent"):
		return errNoSuchKey
	case current != nil && strings.Trim(c.ifMatch, `"`) != current.etag && !slices.Contains(s.flaws.Ignores, name):
		return errPrecondition
	}
	return nil
}

// write makes o the state of a key if the conditions hold.
func (s *Server) write(path string, c conditions, o object) *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	conditional := c.ifMatch != "" || c.ifNoneMatch != ""
	if conditional && s.flaws.Conflicts && s.busy[path] > 0 {
		s.busy[path]++ // whoever waits for company has it
		s.arrived.Broadcast()
		return errConflict
	}
	if err := s.check(c, s.at(path, s.flaws.StaleConditions)); err != nil {
		return err
	}
	if conditional && (s.flaws.Conflicts || slices.Contains(s.flaws.NotAtomic, c.op)) {
		s.wait(path)
	}
	o.at = time.Now()
	s.history[path] = append(s.history[path], o)
	return nil
}

// company is how long a request waits, between its check and its write, for
// another one to be there as well.
const company = 50 * time.Millisecond

// wait gives up mu until another conditional write of the key is under way.
func (s *Server) wait(path string) {
	s.busy[path]++
	s.arrived.Broadcast()
	over := false
	timer := time.AfterFunc(company, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		over = true
		s.arrived.Broadcast()
	})
	defer timer.Stop()
	for s.busy[path] < 2 && !over {
		s.arrived.Wait()
	}
	if s.flaws.Conflicts {
		s.busy[path] = 0
	}
}
