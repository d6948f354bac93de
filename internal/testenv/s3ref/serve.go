package s3ref

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := content(r)
	if err != nil && !s.flaws.KeepsCut {
		fail(w, r, errMalformed)
		return
	}
	q := r.URL.Query()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	path := bucket + "/" + key
	switch {
	case key == "" && r.Method == http.MethodPost && q.Has("delete"):
		s.deleteObjects(w, r, bucket, body)
	case key == "" && r.Method == http.MethodGet && q.Has("uploads"):
		s.listUploads(w, bucket, q)
	case key == "" && r.Method == http.MethodGet:
		s.list(w, bucket, q)
	case key == "":
		w.WriteHeader(http.StatusOK) // makes, heads or removes a bucket
	case r.Method == http.MethodPost && q.Has("uploads"):
		s.createUpload(w, bucket, key)
	case q.Has("uploadId"):
		s.multipart(w, r, path, q, body)
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		s.copyObject(w, r, path)
	case r.Method == http.MethodPut:
		o := s.object(body)
		if fail(w, r, s.write(path, conditionsOf("PutObject", r), o)) {
			return
		}
		w.Header().Set("ETag", quote(o.etag))
	case r.Method == http.MethodDelete:
		if c := conditionsOf("DeleteObject", r); !fail(w, r, s.write(path, c, object{gone: true})) {
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		s.get(w, r, path)
	}
}

func (s *Server) object(content []byte) object {
	return object{content: content, etag: s.flaws.ETag(content)}
}

func quote(etag string) string { return `"` + etag + `"` }

func (s *Server) get(w http.ResponseWriter, r *http.Request, path string) {
	s.mu.Lock()
	o := s.at(path, s.flaws.StaleReads)
	s.mu.Unlock()
	if o == nil {
		fail(w, r, errNoSuchKey)
		return
	}
	if fail(w, r, s.check(conditions{op: "GetObject", ifMatch: r.Header.Get("If-Match")}, o)) {
		return
	}
	r.Header.Del("If-Match")
	w.Header().Set("ETag", quote(o.etag))
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", o.at, strings.NewReader(string(o.content)))
}

func (s *Server) copyObject(w http.ResponseWriter, r *http.Request, path string) {
	source, err := url.PathUnescape(strings.TrimPrefix(r.Header.Get("X-Amz-Copy-Source"), "/"))
	if err != nil {
		fail(w, r, errMalformed)
		return
	}
	s.mu.Lock()
	from := s.at(source, 0)
	s.mu.Unlock()
	if from == nil {
		fail(w, r, errNoSuchKey)
		return
	}
	if match := r.Header.Get("X-Amz-Copy-Source-If-Match"); match != "" && strings.Trim(match, `"`) != from.etag {
		fail(w, r, errPrecondition)
		return
	}
	o := s.object(from.content)
	if !fail(w, r, s.write(path, conditionsOf("CopyObject", r), o)) {
		reply(w, xmlCopy{ETag: quote(o.etag), LastModified: time.Now().UTC()})
	}
}

func (s *Server) deleteObjects(w http.ResponseWriter, r *http.Request, bucket string, body []byte) {
	var asked xmlDelete
	if xml.Unmarshal(body, &asked) != nil {
		fail(w, r, errMalformed)
		return
	}
	var result xmlDeleteResult
	for _, o := range asked.Objects {
		if err := s.write(bucket+"/"+o.Key, conditions{op: "DeleteObjects", ifMatch: o.ETag}, object{gone: true}); err != nil {
			result.Errors = append(result.Errors, xmlError{Key: o.Key, Code: err.code, Message: err.code})
			continue
		}
		result.Deleted = append(result.Deleted, xmlKey{Key: o.Key})
	}
	reply(w, result)
}

func (s *Server) list(w http.ResponseWriter, bucket string, q url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := xmlList{XMLName: xml.Name{Local: "ListBucketResult"}, Name: bucket, Prefix: q.Get("prefix"), MaxKeys: 1000}
	for _, path := range slices.Sorted(maps.Keys(s.history)) {
		key, ok := strings.CutPrefix(path, bucket+"/")
		o := s.at(path, s.flaws.StaleReads)
		if !ok || o == nil || !strings.HasPrefix(key, result.Prefix) {
			continue
		}
		entry := xmlEntry{Key: key, ETag: quote(o.etag), Size: len(o.content), LastModified: o.at.UTC()}
		if q.Has("versions") {
			entry.VersionID = "null"
			result.Versions = append(result.Versions, entry)
		} else {
			result.Contents = append(result.Contents, entry)
		}
	}
	if q.Has("versions") {
		result.XMLName.Local = "ListVersionsResult"
	}
	reply(w, result)
}

func (s *Server) createUpload(w http.ResponseWriter, bucket, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := rand.Text()
	s.uploads[id] = &upload{path: bucket + "/" + key, parts: map[int]object{}}
	reply(w, xmlCreated{Bucket: bucket, Key: key, UploadID: id})
}

func (s *Server) listUploads(w http.ResponseWriter, bucket string, q url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := xmlUploads{Bucket: bucket}
	for id, u := range s.uploads {
		if strings.HasPrefix(u.path, bucket+"/"+q.Get("prefix")) {
			result.Uploads = append(result.Uploads, xmlUpload{Key: strings.TrimPrefix(u.path, bucket+"/"), UploadID: id, Initiated: time.Now().UTC()})
		}
	}
	slices.SortFunc(result.Uploads, func(a, b xmlUpload) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.UploadID, b.UploadID))
	})
	reply(w, result)
}

func (s *Server) multipart(w http.ResponseWriter, r *http.Request, path string, q url.Values, body []byte) {
	id := q.Get("uploadId")
	s.mu.Lock()
	u := s.uploads[id]
	s.mu.Unlock()
	if u == nil || u.path != path {
		fail(w, r, errNoSuchUpload)
		return
	}
	switch r.Method {
	case http.MethodPut:
		n, err := strconv.Atoi(q.Get("partNumber"))
		if err != nil {
			fail(w, r, errMalformed)
			return
		}
		part := s.object(body)
		s.mu.Lock()
		u.parts[n] = part
		s.mu.Unlock()
		w.Header().Set("ETag", quote(part.etag))
	case http.MethodDelete:
		s.forget(id)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		var whole []byte
		s.mu.Lock()
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			whole = append(whole, u.parts[n].content...)
		}
		parts := len(u.parts)
		s.mu.Unlock()
		o := s.object(whole)
		o.etag += "-" + strconv.Itoa(parts)
		if !fail(w, r, s.write(path, conditionsOf("CompleteMultipartUpload", r), o)) {
			s.forget(id)
			bucket, key, _ := strings.Cut(path, "/")
			reply(w, xmlCompleted{Bucket: bucket, Key: key, ETag: quote(o.etag)})
		}
	default:
		fail(w, r, errNotImplemented)
	}
}

func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uploads, id)
}

// fail answers with err and says that there was one.
func fail(w http.ResponseWriter, r *http.Request, err *failure) bool {
	if err == nil {
		return false
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(err.status)
	if r.Method != http.MethodHead {
		_ = xml.NewEncoder(w).Encode(xmlFailure{Code: err.code, Message: err.code, Resource: r.URL.Path})
	}
	return true
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(v)
}

// content reads a body, which a signing client sends in signed chunks where
// there is no TLS: hexadecimal size; chunk-signature CRLF data CRLF. With an error
// it returns as much as has come.
func content(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var whole []byte
	in := bufio.NewReader(r.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return whole, fmt.Errorf("read chunk: %w", err)
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 31)
		if err != nil {
			return whole, fmt.Errorf("read chunk: %w", err)
		}
		if n == 0 {
			return whole, nil
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return whole, errors.New("chunk is cut off")
		}
		whole = append(whole, chunk[:n]...)
	}
}
