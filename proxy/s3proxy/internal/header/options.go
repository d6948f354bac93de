package header

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

const (
	metaPrefix = "X-Amz-Meta-"
	// maxMetadata is the size in bytes of all names and values, as of S3.
	maxMetadata = 2 << 10
	// defaultType is what S3 says of an object that was stored without a type.
	defaultType = "binary/octet-stream"
)

// PutOptions are what is stored beside a payload, by the headers of a request,
// and how. The conditions are not among them: CreateMultipartUpload has none.
func PutOptions(h http.Header) (s3store.PutOptions, error) {
	o := s3store.PutOptions{
		ContentType: h.Get("Content-Type"), ContentEncoding: WithoutChunked(list(h, "Content-Encoding")),
		ContentDisposition: h.Get("Content-Disposition"), ContentLanguage: list(h, "Content-Language"),
		CacheControl: list(h, "Cache-Control"), StorageClass: h.Get("X-Amz-Storage-Class"),
		ExpiresText: h.Get("Expires"), // which need not be a date
	}
	if o.ContentType == "" {
		o.ContentType = defaultType
	}
	if acl := h.Get("X-Amz-Acl"); acl != "" && acl != "private" && acl != "bucket-owner-full-control" {
		return o, refusal.New(refusal.NotImplemented, "The ACL %q is not implemented by the proxy.", acl)
	}
	var err error
	if o.UserMetadata, err = metadata(h); err != nil {
		return o, err
	}
	if o.UserTags, err = Tags(h.Get("X-Amz-Tagging")); err != nil {
		return o, err
	}
	o.ServerSideEncryption, err = encryption(h)
	return o, err
}

// list is a header that is one however many lines it comes in.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-5.3
func list(h http.Header, name string) string { return strings.Join(h[name], ",") }

// metadata is the client's own, without the fence's.
func metadata(h http.Header) (map[string]string, error) {
	all := make(map[string]string)
	size := 0
	for name, values := range h {
		if !strings.HasPrefix(name, metaPrefix) || name == carrier.S3Metadata {
			continue
		}
		value := strings.Join(values, ",")
		size += len(name) - len(metaPrefix) + len(value)
		all[strings.ToLower(name)] = value
	}
	if size > maxMetadata {
		return nil, refusal.New(refusal.MetadataTooLarge, "Your metadata headers exceed the maximum allowed metadata size")
	}
	return all, nil
}

// Tags reads tags as a header has them, name=value&name=value.
func Tags(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, refusal.New(refusal.InvalidArgument, "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.")
	}
	tags := make(map[string]string, len(values))
	for name, v := range values {
		if len(v) > 1 {
			return nil, refusal.New(refusal.InvalidTag, "Cannot provide multiple Tags with the same key")
		}
		tags[name] = v[0]
	}
	return tags, CheckTags(tags)
}

// encryption is by keys of the store's.
func encryption(h http.Header) (encrypt.ServerSide, error) {
	key, context := h.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"), h.Get("X-Amz-Server-Side-Encryption-Context")
	switch method := h.Get("X-Amz-Server-Side-Encryption"); {
	case method == "" && key == "" && context == "":
		return nil, nil
	case method == "AES256" && key == "" && context == "":
		return encrypt.NewSSE(), nil
	case method == "aws:kms":
		if context == "" {
			return encrypt.NewSSEKMS(key, nil)
		}
		text, err := base64.StdEncoding.DecodeString(context)
		if err != nil || !json.Valid(text) {
			return nil, refusal.New(refusal.InvalidArgument, "x-amz-server-side-encryption-context is not JSON in Base64.")
		}
		return encrypt.NewSSEKMS(key, json.RawMessage(text))
	default:
		return nil, refusal.New(refusal.NotImplemented, "This server-side encryption is not implemented by the proxy.")
	}
}

// WithoutChunked is a Content-Encoding without what the client's way of sending
// has put into it.
func WithoutChunked(encoding string) string {
	var kept []string
	for part := range strings.SplitSeq(encoding, ",") {
		if part = strings.TrimSpace(part); part != "" && !strings.EqualFold(part, "aws-chunked") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ",")
}
