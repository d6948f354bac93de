package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/tags"
	"golang.org/x/net/http/httpguts"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// PutOptions are the options of one write, those of minio.PutObjectOptions that
// can be fenced.
type PutOptions struct {
	// UserMetadata and UserTags are stored with the object. Names of metadata
	// get the prefix x-amz-meta- unless they have it.
	UserMetadata, UserTags map[string]string
	// ContentType defaults to application/octet-stream.
	ContentType                                                        string
	ContentEncoding, ContentDisposition, ContentLanguage, CacheControl string
	Expires                                                            time.Time
	// ExpiresText is sent in the place of Expires: what objects have there may be no date.
	ExpiresText  string
	StorageClass string
	// ServerSideEncryption is by keys of the server's: SSE-S3 or SSE-KMS. Keys
	// of the client's own (SSE-C) are refused.
	ServerSideEncryption encrypt.ServerSide
	// Checksum makes the server verify what it receives: CRC32, CRC32C, SHA1 or
	// SHA256, of the framed object or of each part. A payload that can be read
	// only once is taken into memory for it, a part at a time. Defaults to
	// none beyond what signature and TLS protect.
	Checksum minio.ChecksumType
	// IfMatch writes only if the object has this ETag, "*" if there is one.
	IfMatch string
	// IfNoneMatch "*" writes only if there is no object; nothing else is
	// allowed.
	IfNoneMatch string
}

// Put writes an object under token, which it claims first if this store has
// not yet. Size is -1 if it is not known; readers that can seek tell it. Above
// Config.PartSize the payload is uploaded in parts.
//
// It is one request if the store knows the key's state under this token, from
// an earlier read or write, otherwise two. What else writes the key under the
// same token at the same time comes before or after: a Put that lost is sent
// again if the payload can be read again (it can seek, or is at most 1 MiB),
// otherwise it fails with ErrConflict. So it does, always, if the write that
// came first was one of an older token. A condition of the caller's that is
// false fails with ErrPrecondition. In all these cases nothing was written, as
// guard.OutcomeOf tells of every error (I2).
func (s *Store) Put(ctx context.Context, token guard.Token, key string, r io.Reader, size int64, o PutOptions) (minio.UploadInfo, error) {
	p, err := payload.Of(r, size)
	if err != nil {
		return minio.UploadInfo{}, s.done(ctx, "put", key, notApplied(err))
	}
	info, err := s.put(ctx, token, key, p, o, layout.Wish{})
	return info, s.done(ctx, "put", key, err)
}

func (s *Store) put(ctx context.Context, token guard.Token, key string, p *payload.Payload, o PutOptions, wish layout.Wish) (minio.UploadInfo, error) {
	opts, err := o.minio()
	if err != nil {
		return minio.UploadInfo{}, notApplied(err)
	}
	g, err := s.writer(ctx, token, key)
	if err != nil {
		return minio.UploadInfo{}, notApplied(err)
	}
	wish.IfMatch, wish.IfAbsent, wish.Legacy = unquoted(o.IfMatch), o.IfNoneMatch != "", wish.Legacy || s.config.Legacy
	w := &write{store: s, grant: g, key: key, wish: wish}
	var part []byte
	if p.Size() < 0 {
		if part, err = p.Measure(ctx, s.config.PartSize, layout.HeaderSize); err != nil {
			return minio.UploadInfo{}, notApplied(err)
		}
	}
	if err := p.Keep(); err != nil {
		return minio.UploadInfo{}, notApplied(err)
	}
	if p.Size() >= 0 && p.Size() <= min(s.config.PartSize, parts.MaxSize-layout.HeaderSize) {
		if o.Checksum.IsSet() {
			if err := p.Load(); err != nil {
				return minio.UploadInfo{}, notApplied(err)
			}
		}
		w.cargo = &single{store: s, key: key, opts: opts, checksum: o.Checksum, payload: p}
		return w.run(ctx)
	}
	u, err := s.newUpload(key, opts, o.Checksum, p, part)
	if err != nil {
		return minio.UploadInfo{}, notApplied(err)
	}
	w.cargo = u
	defer u.Abort(ctx)
	return w.run(ctx)
}

// writer returns the grant under which key may be written.
func (s *Store) writer(ctx context.Context, token guard.Token, key string) (layout.Grant, error) {
	if err := errors.Join(token.Validate(), token.MayWrite()); err != nil {
		return layout.Grant{}, err
	}
	g, err := s.claimed(ctx, token)
	if err == nil {
		err = s.mine(token, key)
	}
	if err == nil && strings.HasSuffix(key, "/") {
		err = s.holdsSlashes(ctx, key)
	}
	return g, err
}

// holdsSlashes refuses a key that ends in a slash where the server holds nothing under
// such ones, not even a header. Whether it does not may stay unknown: then the write tells.
func (s *Store) holdsSlashes(ctx context.Context, key string) error {
	if holds, err := s.tested.Slashes(ctx, s.parts); holds || err != nil {
		return nil //nolint:nilerr // the server has not said no
	}
	return minio.ErrorResponse{
		StatusCode: http.StatusBadRequest, Code: "DirectoryObjectContainsData", Key: key,
		Message: "The store keeps objects as files and folders, and holds no bytes under a key that ends in a slash. Leave the slash out.",
	}
}

const metaPrefix = "x-amz-meta-"

// minio returns the options as minio-go takes them.
func (o *PutOptions) minio() (minio.PutObjectOptions, error) {
	opts := minio.PutObjectOptions{
		UserTags: o.UserTags, ContentType: o.ContentType, ContentEncoding: o.ContentEncoding,
		ContentDisposition: o.ContentDisposition, ContentLanguage: o.ContentLanguage, CacheControl: o.CacheControl,
		Expires: o.Expires, StorageClass: o.StorageClass, ServerSideEncryption: o.ServerSideEncryption,
		UserMetadata: make(map[string]string, len(o.UserMetadata)+1),
	}
	for name, value := range o.UserMetadata {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return opts, fmt.Errorf("metadata %q cannot be a header", name)
		}
		if !strings.HasPrefix(strings.ToLower(name), metaPrefix) { // by its full name nothing else can be meant
			name = metaPrefix + name
		}
		opts.UserMetadata[name] = value
	}
	if o.ExpiresText != "" {
		if !httpguts.ValidHeaderFieldValue(o.ExpiresText) {
			return opts, fmt.Errorf("expires %q cannot be a header", o.ExpiresText)
		}
		opts.Expires, opts.UserMetadata["Expires"] = time.Time{}, o.ExpiresText // minio-go knows it for none of the metadata
	}
	if _, err := tags.NewTags(o.UserTags, true); err != nil { // minio-go would leave them all out
		return opts, fmt.Errorf("tags: %w", err)
	}
	if err := o.conditions(); err != nil {
		return opts, err
	}
	switch {
	case o.ServerSideEncryption != nil && o.ServerSideEncryption.Type() == encrypt.SSEC:
		return opts, fmt.Errorf("%w: encryption by a key of the client's", guard.ErrUnsupported)
	case !o.Checksum.IsSet():
		return opts, nil
	}
	switch o.Checksum {
	case minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumSHA1, minio.ChecksumSHA256:
		return opts, nil
	default: // of the whole object only, or younger than most stores
		return opts, fmt.Errorf("%w: checksum %s", guard.ErrUnsupported, o.Checksum)
	}
}

// conditions refuses conditions that S3 does not have on writes.
func (o *PutOptions) conditions() error {
	switch {
	case o.IfNoneMatch != "" && o.IfNoneMatch != "*":
		return fmt.Errorf("%w: IfNoneMatch other than *", guard.ErrUnsupported)
	case o.IfNoneMatch != "" && o.IfMatch != "":
		return fmt.Errorf("%w: IfMatch and IfNoneMatch at once", guard.ErrUnsupported)
	}
	return nil
}

// noETag is what no server gives an object for an ETag.
const noETag = "-"

// unquoted is an ETag as the server has it. One with nothing between its quotes, or
// with what means any without them, is no ETag, and a condition that names it false.
func unquoted(etag string) string {
	bare := strings.Trim(etag, `"`)
	if bare != etag && (bare == "" || bare == "*") {
		return noETag
	}
	return bare
}
