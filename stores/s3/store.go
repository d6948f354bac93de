package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/listing"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/marks"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/recall"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/selftest"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// Layout is how objects are stored.
type Layout uint8

const (
	// LayoutFramed: a header of 64 bytes stands in front of each payload, see
	// docs/s3-layout.md. It is right on every store that compares and swaps.
	LayoutFramed Layout = iota
	// LayoutPlain, the payload and nothing else, is refused so far: it needs
	// ETags that never recur, and those of ordinary S3 are content hashes.
	LayoutPlain
)

// Config is what a Store works on. All but Bucket may be left out.
type Config struct {
	// Bucket is the bucket. It must exist.
	Bucket string
	// Layout is how objects are stored. Defaults to LayoutFramed.
	Layout Layout
	// Legacy lets objects that are not framed, because they were there before,
	// be read, listed and overwritten. A listing then looks at the first bytes
	// of each object, one request for each that it has not seen before. Frame
	// does away with the need. Defaults to false: they are refused with
	// guard.ErrUnsupported.
	Legacy bool
	// Prefixes binds keys to resources: a key that starts with one of these
	// prefixes, the longest counts, is written under a token of that resource
	// and no other. Keys without one belong to the resource whose token first
	// wrote them. Defaults to none.
	Prefixes map[string]string
	// OnlyPrefixes makes keys that no prefix binds none of the store's business:
	// listings show them as they are, and everything else is refused there with
	// guard.ErrUnsupported. Defaults to false.
	OnlyPrefixes bool
	// UploadKey authenticates the ids of uploads that are shared (CreateUpload):
	// all processes that go on with each other's uploads have the same, of 32
	// random bytes or as much. Defaults to none: such uploads are refused with
	// guard.ErrUnsupported.
	UploadKey []byte
	// ReadWithoutToken lets keys be read under the zero Token, and under the
	// token of a resource that they do not belong to. Defaults to false: such
	// reads are refused with guard.ErrNoToken.
	ReadWithoutToken bool
	// PartSize is the size in bytes above which a payload is uploaded in parts,
	// and that of a part: 5 MiB to 5 GiB. Defaults to 16 MiB, minio-go's.
	PartSize int64
	// Parallel is how many parts of one upload, or keys of one DeleteMany, are
	// under way at once. A payload that can only be read once takes PartSize
	// bytes of memory for each of at most two. Defaults to 4.
	Parallel int
	// Objects reads and writes objects, and parts, in the place of the client's own methods,
	// for a caller who has a faster way to the same store: it signs as the client
	// does. Defaults to the client.
	Objects Objects
	// SettleTime bounds what is done after the caller's context has ended: ask
	// what became of a write whose reply is lost, abort an upload. Defaults to
	// 5 s.
	SettleTime time.Duration
	// Logger gets one line for each refusal. Defaults to none.
	Logger *slog.Logger
}

// Objects is how an object, or a part, is read and written by one request: methods of
// minio.Core, which is one. Whoever has another sends each write once; calls GetConn
// and GotConn of the context's httptrace.ClientTrace, or a write that failed counts
// as one that may have been carried out; and tells of what the store answers by a
// minio.ErrorResponse. Of the options it has to heed what they make of a request's
// header, PartNumber, Checksum, and CustomHeader.
type Objects interface {
	GetObject(ctx context.Context, bucket, key string, o minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error)
	PutObject(ctx context.Context, bucket, key string, body io.Reader, size int64, md5Base64, sha256Hex string, o minio.PutObjectOptions) (minio.UploadInfo, error)
	PutObjectPart(ctx context.Context, bucket, key, uploadID string, number int, body io.Reader, size int64, o minio.PutObjectPartOptions) (minio.ObjectPart, error)
}

// Store reads and writes the objects of one bucket, each write under a fencing
// token. It is safe for use by many goroutines.
type Store struct {
	core     minio.Core
	objects  Objects
	config   Config
	prefixes []string // of Config.Prefixes, longest first
	claims   recall.Claims
	known    recall.Keys
	tested   selftest.Tests
	marks    marks.Bucket
	parts    *parts.Bucket
	list     listing.Bucket
}

// New returns a store on a bucket of client, which stays the caller's. Build
// the client with MaxRetries: 1. The store sends each write once whatever the
// client is set to, and decides itself what may be sent again; a client that
// retries only makes it learn of a failure later.
//
// It asks nothing of the server yet. The first claim sees that the server
// honours conditions, and the first upload in parts that it does so there, or
// they are refused with guard.ErrUnsupported. What that does not show, whether a
// store is atomic and reads what it wrote, `fenceproxy doctor s3` tries out.
func New(client *minio.Client, c Config) (*Store, error) {
	if client == nil {
		return nil, errors.New("s3store: client is nil")
	}
	if err := s3utils.CheckValidBucketName(c.Bucket); err != nil {
		return nil, fmt.Errorf("s3store: bucket: %w", err)
	}
	if c.Layout != LayoutFramed {
		return nil, fmt.Errorf("s3store: %w: layout plain, for no ordinary store has ETags that never recur", guard.ErrUnsupported)
	}
	for prefix, resource := range c.Prefixes {
		if err := guard.ValidateResource(resource); err != nil {
			return nil, fmt.Errorf("s3store: prefix %q: %w", prefix, err)
		}
	}
	if c.PartSize == 0 {
		c.PartSize = 16 << 20
	}
	if c.Parallel == 0 {
		c.Parallel = 4
	}
	if c.SettleTime == 0 {
		c.SettleTime = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.PartSize < parts.MinSize || c.PartSize > parts.MaxSize:
		return nil, errors.New("s3store: PartSize is not 5 MiB to 5 GiB")
	case c.Parallel < 0:
		return nil, errors.New("s3store: Parallel is negative")
	case c.SettleTime < 0:
		return nil, errors.New("s3store: SettleTime is negative")
	}
	core := minio.Core{Client: client}
	if c.Objects == nil {
		c.Objects = core
	}
	c.Prefixes, c.UploadKey = maps.Clone(c.Prefixes), slices.Clone(c.UploadKey)
	s := &Store{
		core: core, objects: c.Objects, config: c,
		marks: marks.Bucket{Core: core, Name: c.Bucket}, list: listing.Bucket{Core: core, Name: c.Bucket},
		parts: &parts.Bucket{Core: core, Objects: c.Objects, Name: c.Bucket, Parallel: c.Parallel, SettleTime: c.SettleTime, Logger: c.Logger},
	}
	s.prefixes = slices.SortedFunc(maps.Keys(c.Prefixes), func(a, b string) int { return len(b) - len(a) })
	return s, nil
}

// ResourceOf returns the resource that Config.Prefixes binds key to; false if
// none does.
func (s *Store) ResourceOf(key string) (string, bool) {
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(key, prefix) {
			return s.config.Prefixes[prefix], true
		}
	}
	return "", false
}

// mine refuses keys that are the fence's own, and those that belong to another
// resource than the token's.
func (s *Store) mine(token guard.Token, key string) error {
	if layout.Reserved(key) {
		return refuse(token, errReserved)
	}
	resource, bound := s.ResourceOf(key)
	switch {
	case !bound && s.config.OnlyPrefixes:
		return refuse(token, errUnbound)
	case bound && resource != token.Resource:
		return refuse(token, fmt.Errorf("%w: key belongs to %q", guard.ErrNoToken, resource))
	}
	return nil
}

// Why a key is nobody's to write or read here.
var (
	errReserved = fmt.Errorf("%w: key is the fence's own", guard.ErrUnsupported)
	errUnbound  = fmt.Errorf("%w: no prefix binds the key to a resource", guard.ErrUnsupported)
)

// settling returns a context for what is still to be done after a write failed,
// even because ctx has ended.
func (s *Store) settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.config.SettleTime)
}

func refuse(token guard.Token, reason error) error {
	return &guard.RefusedError{Reason: reason, Token: token}
}
