package probe

import (
	"context"
	"crypto/md5" //nolint:gosec // S3 asks for it, as a checksum
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
)

// remover is a way to delete an object on a condition.
type remover struct {
	operation string
	remove    func(ctx context.Context, key, etag string) answer
}

func deleteObject(s *store) remover {
	return remover{"DeleteObject", func(ctx context.Context, key, etag string) answer {
		_, a := s.raw(ctx, http.MethodDelete, key, nil, condition{match: etag}.header(), nil)
		return a
	}}
}

func deleteObjects(s *store) remover {
	return remover{"DeleteObjects", func(ctx context.Context, key, etag string) answer {
		type object struct {
			Key  string `xml:"Key"`
			ETag string `xml:"ETag"`
		}
		body, err := xml.Marshal(struct {
			XMLName xml.Name `xml:"Delete"`
			Objects []object `xml:"Object"`
		}{Objects: []object{{key, etag}}})
		if err != nil {
			return answered("", err)
		}
		sum := md5.Sum(body) //nolint:gosec // S3 asks for it, as a checksum
		header := http.Header{}
		header.Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
		text, a := s.raw(ctx, http.MethodPost, "", url.Values{"delete": {""}}, header, body)
		if a.err != nil {
			return a
		}
		var result struct {
			Errors []minio.ErrorResponse `xml:"Error"`
		}
		if err := xml.Unmarshal([]byte(text), &result); err != nil {
			return answered("", err)
		}
		if len(result.Errors) == 0 {
			return a
		}
		return answer{status: statusOf(result.Errors[0].Code), err: result.Errors[0]}
	}}
}

// statusOf is the status that an error's code has elsewhere: in the answer to
// DeleteObjects there is none.
func statusOf(code string) int {
	switch {
	case code == "PreconditionFailed":
		return http.StatusPreconditionFailed
	case code == "NotImplemented":
		return http.StatusNotImplemented
	case code == "AccessDenied":
		return http.StatusForbidden
	case strings.HasPrefix(code, "NoSuch"):
		return http.StatusNotFound
	default:
		return 0
	}
}

// removalsOf are the checks of a delete's condition.
func removalsOf(s *store, put writer, r remover) []check {
	row := func(name, asked string) Row {
		return Row{Name: r.operation + "/" + name, Operation: r.operation, Asked: asked}
	}
	return []check{
		{row("current", "If-Match of the current ETag deletes"), func(ctx context.Context) (Result, string) {
			key := s.fresh()
			made := put.write(ctx, key, fill(), condition{})
			if made.err != nil {
				return Unknown, "make an object: " + made.String()
			}
			a := s.unmakes(key, r.remove(ctx, key, made.etag))
			_, _, read := s.read(ctx, key)
			switch {
			case a.err != nil:
				return s.denied(a)
			case read.absent():
				return Honoured, a.String()
			case read.err == nil:
				return Violated, "answered as done, and was not"
			default:
				return Unknown, "read it back: " + read.String()
			}
		}},
		{row("earlier", "If-Match of the ETag before is refused"), func(ctx context.Context) (Result, string) {
			key, second := s.fresh(), fill()
			before := put.write(ctx, key, fill(), condition{})
			now := put.write(ctx, key, second, condition{})
			if before.err != nil || now.err != nil {
				return Unknown, "make an object: " + before.String() + ", " + now.String()
			}
			return s.refused(ctx, key, second, s.unmakes(key, r.remove(ctx, key, before.etag)))
		}},
		{row("absent", "If-Match is refused where nothing is"), func(ctx context.Context) (Result, string) {
			key := s.fresh()
			return s.refused(ctx, key, "", r.remove(ctx, key, noETag))
		}},
	}
}

// abortOf is the check that an upload which was aborted cannot be completed.
func abortOf(s *store) check {
	return check{
		Row{Name: "AbortMultipartUpload", Operation: "AbortMultipartUpload", Asked: "an upload that was aborted cannot be completed"},
		func(ctx context.Context) (Result, string) {
			key := s.fresh()
			u, a := s.stage(ctx, key, fill())
			if a.err != nil {
				return Unknown, "begin an upload: " + a.String()
			}
			if a := s.abort(ctx, key, u.id); a.err != nil {
				return s.denied(a)
			}
			a = s.complete(ctx, key, u, condition{})
			_, _, read := s.read(ctx, key)
			switch {
			case read.err == nil || a.err == nil:
				return Violated, "completed: " + a.String()
			case a.absent():
				return Honoured, a.String()
			default:
				return s.denied(a)
			}
		},
	}
}
