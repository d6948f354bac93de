package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// infoOf is what the header of an answer tells of an object: what minio.ToObjectInfo
// makes of it, without checksums (which are of the framed object), and without what
// belongs to buckets that replicate or restore. Metadata is as the store sends it: what
// minio-go decodes could not always be sent again.
func infoOf(key string, h http.Header) (minio.ObjectInfo, error) {
	info := minio.ObjectInfo{
		Key: key, Size: -1, ETag: strings.TrimSuffix(strings.TrimPrefix(first(h, "Etag"), `"`), `"`),
		ContentType: strings.TrimSpace(first(h, "Content-Type")), ContentEncoding: strings.TrimSpace(first(h, "Content-Encoding")),
		VersionID: first(h, "X-Amz-Version-Id"), IsDeleteMarker: first(h, "X-Amz-Delete-Marker") == "true",
		Headers: h, Metadata: make(http.Header), UserMetadata: minio.StringMap{},
	}
	if info.ContentType == "" {
		info.ContentType = "application/octet-stream"
	}
	var err error
	if text := first(h, "Content-Length"); text != "" {
		if info.Size, err = strconv.ParseInt(text, 10, 64); err != nil {
			return info, fmt.Errorf("read answer: Content-Length: %w", err)
		}
	}
	if text := first(h, "X-Amz-Tagging-Count"); text != "" {
		if info.UserTagCount, err = strconv.Atoi(text); err != nil {
			return info, fmt.Errorf("read answer: x-amz-tagging-count: %w", err)
		}
	}
	if info.LastModified, err = date(first(h, "Last-Modified")); err != nil {
		return info, fmt.Errorf("read answer: Last-Modified: %w", err)
	}
	// Some have 0 there, or other things that are no time: that is no reason not to
	// read the object.
	if text := first(h, "Expires"); text != "" {
		info.Expires, _ = date(text)
	}
	for name, values := range h {
		if name, user := strings.CutPrefix(name, metaPrefix); user {
			info.UserMetadata[name] = values[0]
		} else if !described(name) {
			continue
		}
		info.Metadata[name] = values
	}
	return info, nil
}

// date reads a date as servers write it.
func date(text string) (time.Time, error) {
	at, err := time.Parse(http.TimeFormat, text)
	if err != nil {
		at, err = time.Parse("Mon, _2 Jan 2006 15:04:05 MST", text)
	}
	return at, err
}

const metaPrefix = "X-Amz-Meta-"

func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// described reports whether a header is stored with an object, besides those of its user.
func described(name string) bool {
	switch name {
	case "Content-Type", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Disposition",
		"X-Amz-Storage-Class", "X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date", "X-Amz-Object-Lock-Legal-Hold",
		"X-Amz-Website-Redirect-Location", "X-Amz-Tagging-Count":
		return true
	}
	return strings.HasPrefix(name, "X-Amz-Server-Side-Encryption") || strings.HasPrefix(name, "X-Minio-Meta-")
}
