package s3xml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// SyntaxError says that a document is no XML, or not what it should be.
type SyntaxError struct{ flaw string }

// Error is S3's own message, and what is wrong.
func (e *SyntaxError) Error() string {
	return "The XML you provided was not well-formed or did not validate against our published schema: " + e.flaw
}

// ErrTooLarge says that a document is larger than any such has to be.
var ErrTooLarge = errors.New("XML too large")

const (
	// maxSize is the size in bytes of the largest document that is read:
	// 10,000 parts with a checksum each are less than half of it.
	maxSize  = 4 << 20
	maxDepth = 8
	// maxPiece is the size in bytes of the longest tag or text: a key is 1 KiB. It
	// bounds the memory that a document takes while its client keeps the rest:
	// 3 MiB of attributes would be 34 MiB.
	maxPiece = 64 << 10
)

func malformed(format string, args ...any) error {
	return &SyntaxError{flaw: fmt.Sprintf(format, args...)}
}

// source is what a document is read from, at most so much of it.
type source struct {
	r    io.Reader
	left int64
	// piece is how much was read of what the decoder has not returned yet.
	piece int
	err   error // why it ended, if not at its end
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.left == 0 { // the document may end just here
		n, err := s.r.Read(make([]byte, 1))
		if n > 0 {
			s.err = ErrTooLarge
		} else if err != nil && !errors.Is(err, io.EOF) {
			s.err = err
		}
		if s.err != nil {
			return 0, s.err
		}
		return 0, err
	}
	if s.piece > maxPiece {
		s.err = malformed("a tag or text of more than %d bytes", maxPiece)
		return 0, s.err
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	s.piece += n
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// document reads one document whose root is called name, to the end of r. Its
// error is that of r, ErrTooLarge, or else a *SyntaxError. The
// fields of the root and below are given to field as they end: the path from
// the root's children on, joined by "/", and the text in it, blank if it has
// elements. Start is told of each element that begins, so that repeated ones can
// be told apart.
func document(r io.Reader, name string, start func(path string) error, field func(path, text string) error) error {
	s := &source{r: r, left: maxSize}
	err := walk(s, name, start, field)
	var flaw *SyntaxError
	switch {
	case s.err != nil:
		return s.err
	case err == nil || errors.As(err, &flaw):
		return err
	}
	return malformed("%v", err)
}

func walk(s *source, name string, start func(path string) error, field func(path, text string) error) error {
	d := xml.NewDecoder(s)
	var path []string // the root first
	var text strings.Builder
	leaf, ended := true, false
	for {
		token, err := d.Token()
		s.piece = 0
		if errors.Is(err, io.EOF) {
			if !ended {
				return malformed("no %s", name)
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.Directive:
			return malformed("it has a document type")
		case xml.StartElement:
			switch {
			case ended || len(path) == 0 && t.Name.Local != name:
				return malformed("%q in place of %s", t.Name.Local, name)
			case len(path) == maxDepth:
				return malformed("too deep")
			case strings.TrimSpace(text.String()) != "":
				return malformed("text beside %.60q", t.Name.Local)
			}
			path = append(path, t.Name.Local)
			text.Reset()
			leaf = true
			if err := start(strings.Join(path[1:], "/")); err != nil {
				return err
			}
		case xml.CharData:
			if text.Len()+len(t) > maxPiece { // in pieces, with comments between them
				return malformed("a text of more than %d bytes", maxPiece)
			}
			if len(path) > 0 {
				text.Write(t)
			} else if strings.TrimSpace(strings.TrimPrefix(string(t), "\uFEFF")) != "" { // a mark of UTF-8 is none
				return malformed("text outside of %s", name)
			}
		case xml.EndElement: // the decoder has seen that it is the right one
			if !leaf && strings.TrimSpace(text.String()) != "" {
				return malformed("text beside elements")
			}
			if err := field(strings.Join(path[1:], "/"), text.String()); err != nil {
				return err
			}
			text.Reset()
			path = path[:len(path)-1]
			leaf, ended = false, len(path) == 0
		}
	}
}
