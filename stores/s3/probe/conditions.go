package probe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// writer is a way to write an object.
type writer struct {
	operation string
	// prepare makes a write that only has to be sent, as often as it is.
	prepare func(ctx context.Context, key, content string) (send func(context.Context, condition) answer, a answer)
}

func putObject(s *store) writer {
	return writer{"PutObject", func(_ context.Context, key, content string) (func(context.Context, condition) answer, answer) {
		return func(ctx context.Context, c condition) answer { return s.put(ctx, key, content, c) }, answer{}
	}}
}

func completeMultipart(s *store) writer {
	return writer{"CompleteMultipartUpload", func(ctx context.Context, key, content string) (func(context.Context, condition) answer, answer) {
		u, a := s.stage(ctx, key, content)
		return func(ctx context.Context, c condition) answer { return s.complete(ctx, key, u, c) }, a
	}}
}

func copyObject(s *store) writer {
	return writer{"CopyObject", func(ctx context.Context, key, content string) (func(context.Context, condition) answer, answer) {
		source := s.fresh()
		a := s.put(ctx, source, content, condition{absent: true})
		return func(ctx context.Context, c condition) answer {
			header := c.header()
			header.Set("X-Amz-Copy-Source", "/"+s.config.Bucket+"/"+(&url.URL{Path: source}).EscapedPath())
			_, a := s.raw(ctx, http.MethodPut, key, nil, header, nil)
			return s.makes(key, a)
		}, a
	}}
}

// write prepares and sends.
func (w writer) write(ctx context.Context, key, content string, c condition) answer {
	send, a := w.prepare(ctx, key, content)
	if a.err != nil {
		return a
	}
	return send(ctx, c)
}

// conditionsOf are the checks of a write's conditions, one after the other.
func conditionsOf(s *store, w writer, framed bool) []check {
	row := func(name, asked string) Row {
		return Row{Name: w.operation + "/" + name, Operation: w.operation, Asked: asked, Framed: framed}
	}
	return []check{
		{row("create-absent", "If-None-Match: * creates what is not there"), func(ctx context.Context) (Result, string) {
			return s.writes(ctx, w, s.fresh(), condition{absent: true})
		}},
		{row("create-existing", "If-None-Match: * is refused where something is"), func(ctx context.Context) (Result, string) {
			key := s.fresh()
			first := fill()
			if a := s.put(ctx, key, first, condition{}); a.err != nil {
				return Unknown, "make an object: " + a.String()
			}
			return s.refuses(ctx, w, key, condition{absent: true}, first)
		}},
		{row("swap-current", "If-Match of the current ETag overwrites"), func(ctx context.Context) (Result, string) {
			key := s.fresh()
			made := s.put(ctx, key, fill(), condition{})
			if made.err != nil {
				return Unknown, "make an object: " + made.String()
			}
			return s.writes(ctx, w, key, condition{match: made.etag})
		}},
		{row("swap-earlier", "If-Match of the ETag before is refused"), func(ctx context.Context) (Result, string) {
			key, second := s.fresh(), fill()
			before := s.put(ctx, key, fill(), condition{})
			send, a := w.prepare(ctx, key, fill())
			if before.err != nil || a.err != nil {
				return Unknown, fmt.Sprintf("make an object: %v; prepare: %v", before, a)
			}
			if a := s.put(ctx, key, second, condition{}); a.err != nil {
				return Unknown, "overwrite an object: " + a.String()
			}
			return s.refused(ctx, key, second, send(ctx, condition{match: before.etag}))
		}},
		{row("swap-absent", "If-Match is refused where nothing is"), func(ctx context.Context) (Result, string) {
			return s.refuses(ctx, w, s.fresh(), condition{match: noETag}, "")
		}},
	}
}

// noETag is no object's: the MD5 of nothing anybody has found.
const noETag = "00000000000000000000000000000000"

// writes expects a write to be done.
func (s *store) writes(ctx context.Context, w writer, key string, c condition) (Result, string) {
	content := fill()
	a := w.write(ctx, key, content, c)
	if a.err != nil {
		return s.denied(a)
	}
	got, _, read := s.read(ctx, key)
	switch {
	case read.err == nil && got == content:
		return Honoured, a.String()
	case read.err == nil || read.absent():
		return Violated, "answered as done, and was not"
	default:
		return Unknown, "read it back: " + read.String()
	}
}

// refuses expects a write to be refused, and the key to be as before: to hold
// the content before, or to be absent if that is "".
func (s *store) refuses(ctx context.Context, w writer, key string, c condition, before string) (Result, string) {
	return s.refused(ctx, key, before, w.write(ctx, key, fill(), c))
}

func (s *store) refused(ctx context.Context, key, before string, a answer) (Result, string) {
	got, _, read := s.read(ctx, key)
	if read.err != nil && !read.absent() {
		return Unknown, "read it back: " + read.String()
	}
	switch {
	case got != before && a.err == nil:
		return Violated, "ignored: " + a.String()
	case got != before:
		return Violated, "answered " + a.String() + ", and did it"
	case a.refused(), before == "" && a.absent():
		return Honoured, a.String()
	case a.err == nil:
		return Violated, "answered as done"
	default:
		return s.denied(a)
	}
}

// denied is an answer other than what honouring a condition takes.
func (s *store) denied(a answer) (Result, string) {
	if a.tells() {
		return Violated, a.String()
	}
	return Unknown, a.String()
}
