package operation

import (
	"errors"
	"net/url"
	"strings"
)

// Source is where a copy is from.
type Source struct{ Bucket, Key, Version string }

// ErrSource says that x-amz-copy-source names no object.
var ErrSource = errors.New("no source of a copy")

// ParseSource reads x-amz-copy-source: bucket/key or /bucket/key, encoded once,
// and perhaps ?versionId=. As on S3 a "+" is a blank, other than in a path.
func ParseSource(value string) (Source, error) {
	value, version, _ := strings.Cut(value, "?versionId=")
	path, err := url.QueryUnescape(value)
	if err != nil {
		return Source{}, ErrSource
	}
	var s Source
	if s.Version, err = url.QueryUnescape(version); err != nil {
		return Source{}, ErrSource
	}
	s.Bucket, s.Key, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if s.Bucket == "" || s.Key == "" {
		return Source{}, ErrSource
	}
	return s, nil
}
