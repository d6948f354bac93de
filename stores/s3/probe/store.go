package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

// store sends a probe's requests, and knows what it made.
type store struct {
	config  Config
	core    minio.Core
	http    *http.Client
	folder  string
	release func()

	mu      sync.Mutex
	made    map[string]bool   // keys of objects that are there
	uploads map[string]string // key by id, of those that are not complete
	unheard bool              // of an upload that may begin yet
}

func newStore(client *minio.Client, config Config) (*store, error) {
	s := &store{
		config: config, core: minio.Core{Client: client},
		folder: Prefix + strings.ToLower(rand.Text()) + "/", made: map[string]bool{}, uploads: map[string]string{},
		http: &http.Client{Transport: config.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the signature is for this address
		}},
		release: func() {},
	}
	if config.Transport == nil {
		transport, err := minio.DefaultTransport(client.EndpointURL().Scheme == "https")
		if err != nil {
			return nil, fmt.Errorf("probe: make transport: %w", err)
		}
		s.http.Transport, s.release = transport, transport.CloseIdleConnections
	}
	return s, nil
}

// preflight sees whether the bucket can be probed at all.
func (s *store) preflight(ctx context.Context) error {
	_, _, got := s.read(ctx, s.folder+"nothing")
	switch {
	case got.absent():
		return nil
	case got.code() == "AccessDenied":
		return fmt.Errorf("probe bucket %q: %w; a user without s3:ListBucket cannot see that a key is not there", s.config.Bucket, got.err)
	case got.err != nil:
		return fmt.Errorf("probe bucket %q: %w", s.config.Bucket, got.err)
	}
	return fmt.Errorf("probe bucket %q: it has the object %q, which nobody can have made", s.config.Bucket, s.folder+"nothing")
}

// fresh is a key that has never been used.
func (s *store) fresh() string { return s.folder + strings.ToLower(rand.Text()) }

// makes remembers that there is an object, if there is.
func (s *store) makes(key string, a answer) answer {
	if a.err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.made[key] = true
	}
	return a
}

// unmakes forgets an object, if it is gone or may be: listings then tell.
func (s *store) unmakes(key string, a answer) answer {
	if a.err == nil || !a.tells() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.made, key)
	}
	return a
}

// fill is the content of one write, by which it is known again. All are of one
// size.
func fill() string { return "fenceproxy probe, may be deleted: " + rand.Text() }

// condition is what a request says of the state that it acts on; at most one
// field is set.
type condition struct {
	absent bool   // If-None-Match: *
	match  string // If-Match: this ETag
}

func (c condition) header() http.Header {
	h := http.Header{}
	switch {
	case c.absent:
		h.Set("If-None-Match", "*")
	case c.match != "":
		h.Set("If-Match", `"`+c.match+`"`)
	}
	return h
}

func (c condition) options() minio.PutObjectOptions {
	var o minio.PutObjectOptions
	switch {
	case c.absent:
		o.SetMatchETagExcept("*")
	case c.match != "":
		o.SetMatchETag(c.match)
	}
	return o
}

// limit bounds one request.
func (s *store) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.config.Timeout)
}

func (s *store) put(ctx context.Context, key, content string, c condition) answer {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	info, err := s.core.PutObject(ctx, s.config.Bucket, key, strings.NewReader(content), int64(len(content)), "", "", c.options())
	return s.makes(key, answered(info.ETag, err))
}

// upload is a multipart upload that only has to be completed.
type upload struct {
	id    string
	parts []minio.CompletePart
}

func (s *store) stage(ctx context.Context, key, content string) (upload, answer) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	id, err := s.core.NewMultipartUpload(ctx, s.config.Bucket, key, minio.PutObjectOptions{})
	if s.began(id, key, err); err != nil {
		return upload{}, answered("", err)
	}
	part, err := s.core.PutObjectPart(ctx, s.config.Bucket, key, id, 1, strings.NewReader(content), int64(len(content)), minio.PutObjectPartOptions{})
	return upload{id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}}, answered("", err)
}

func (s *store) complete(ctx context.Context, key string, u upload, c condition) answer {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	info, err := s.core.CompleteMultipartUpload(ctx, s.config.Bucket, key, u.id, u.parts, c.options())
	if err == nil {
		s.mu.Lock()
		delete(s.uploads, u.id)
		s.mu.Unlock()
	}
	return s.makes(key, answered(info.ETag, err))
}

func (s *store) abort(ctx context.Context, key, id string) answer {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	a := answered("", s.core.AbortMultipartUpload(ctx, s.config.Bucket, key, id))
	if a.err == nil || a.absent() { // absent: it was completed, and the reply got lost
		s.mu.Lock()
		delete(s.uploads, id)
		s.mu.Unlock()
	}
	return a
}

// read reads an object, as a whole unless opts say otherwise.
func (s *store) read(ctx context.Context, key string, opts ...minio.GetObjectOptions) (content, etag string, a answer) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	body, info, _, err := s.core.GetObject(ctx, s.config.Bucket, key, append(opts, minio.GetObjectOptions{})[0])
	if err != nil {
		return "", "", answered("", err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	a = answered(info.ETag, err)
	return string(text), a.etag, a
}

func (s *store) head(ctx context.Context, key string) answer {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	info, err := s.core.StatObject(ctx, s.config.Bucket, key, minio.StatObjectOptions{})
	return answered(info.ETag, err)
}

// raw sends what minio-go has no call for, by a presigned URL whose signature
// covers the headers, and returns what was answered.
func (s *store) raw(ctx context.Context, method, key string, query url.Values, header http.Header, body []byte) (string, answer) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	u, err := s.core.PresignHeader(ctx, method, s.config.Bucket, key, 5*time.Minute, query, header)
	if err != nil {
		return "", answered("", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return "", answered("", err)
	}
	req.Header, req.GetBody = header, nil // sent once
	res, err := s.http.Do(req)
	if err != nil {
		return "", answered("", redacted(err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return "", answered("", err)
	}
	// An error may come with status 200: it was decided while the copy went on.
	failure := minio.ErrorResponse{StatusCode: res.StatusCode}
	if res.StatusCode >= 300 || bytes.Contains(text, []byte("<Error>")) && method == http.MethodPut {
		_ = xml.Unmarshal(text, &failure) // without one, the status tells
		failure.StatusCode = res.StatusCode
		return string(text), answer{status: res.StatusCode, err: failure}
	}
	return string(text), answer{status: res.StatusCode}
}

// redacted takes away the URL, which has a signature in it.
func redacted(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
