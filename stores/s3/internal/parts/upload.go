package parts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/frame"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

const (
	// Most is how many parts an upload may have.
	Most = 10000
	// MinSize is the least size of a part in bytes, but for the last one.
	MinSize = 5 << 20
	// MaxSize is the largest.
	MaxSize = 5 << 30
)

// Upload is one upload of an object.
type Upload struct {
	Bucket *Bucket
	Key    string
	// Options are those that it is created with; Checksum is sent with each part.
	Options  minio.PutObjectOptions
	Checksum minio.ChecksumType
	// ID is the server's, "" before the upload is created and after it is gone.
	ID string

	mu    sync.Mutex
	parts []minio.CompletePart
	size  int64 // of the payload, as far as it is uploaded
}

// Create begins the upload.
func (u *Upload) Create(ctx context.Context) error {
	id, err := u.Bucket.Create(ctx, u.Key, u.Options)
	if err != nil {
		return err
	}
	u.ID = id
	u.Bucket.add(id)
	return nil
}

// Completed is what a server answers to a completion.
type Completed struct {
	minio.UploadInfo

	// Proven: it tells a checksum of the object, so it has put the parts together,
	// and does not acknowledge what it has not done.
	Proven bool
}

// Complete makes an object of these parts, all that were uploaded if it is nil,
// in the state of the key that c names.
func (u *Upload) Complete(ctx context.Context, list []minio.CompletePart, c layout.Condition) (Completed, layout.Reply, error) {
	if err := ctx.Err(); err != nil {
		return Completed{}, layout.Denied, err
	}
	if list == nil {
		list = u.parts
	}
	opts := minio.PutObjectOptions{ServerSideEncryption: u.Options.ServerSideEncryption}
	request.Condition(&opts, c)
	ctx, w, cancel := request.Once(ctx)
	defer cancel()
	info, err := u.Bucket.Core.CompleteMultipartUpload(ctx, u.Bucket.Name, u.Key, u.ID, list, opts)
	reply := w.Reply(err, false)
	if err != nil {
		err = fmt.Errorf("complete upload: %w", err)
	}
	proven := info.ChecksumCRC64NVME != "" || info.ChecksumCRC32 != "" || info.ChecksumCRC32C != "" || info.ChecksumSHA1 != "" || info.ChecksumSHA256 != ""
	return Completed{frame.Uploaded(info, u.size), proven && err == nil}, reply, err
}

// Gone reports whether the server says that there is no such upload any more.
func (u *Upload) Gone(ctx context.Context) bool {
	_, err := u.Bucket.Core.ListObjectParts(ctx, u.Bucket.Name, u.Key, u.ID, 0, 1)
	return request.IsCode(err, minio.NoSuchUpload)
}

// Forget is for an upload that is no more, and leaves nothing to abort.
func (u *Upload) Forget() {
	u.Bucket.remove(u.ID)
	u.ID = ""
}

// Abort ends an upload that did not become an object, even if ctx has ended.
// One that did, although nobody was told, is gone and stays what it became.
func (u *Upload) Abort(ctx context.Context) {
	if u.ID == "" {
		return
	}
	ctx, cancel := u.Bucket.settling(ctx)
	defer cancel()
	if err := u.Bucket.Abort(ctx, u.Key, u.ID); err != nil {
		u.Bucket.Logger.LogAttrs(ctx, slog.LevelWarn, "upload was left",
			slog.String("key", u.Key), slog.String("upload", u.ID), slog.String("reason", err.Error()))
	}
	u.Forget()
}
