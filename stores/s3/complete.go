package s3store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/parts"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// CompleteOptions are the conditions of one CompleteUpload, as in PutOptions.
type CompleteOptions struct {
	// IfMatch writes only if the object has this ETag, "*" if there is one.
	IfMatch string
	// IfNoneMatch "*" writes only if there is no object.
	IfNoneMatch string
}

// CompleteUpload makes an object of the parts of an upload. This is the write:
// it is decided, conditional and settled as Put's is.
//
// Parts are named in the order of their numbers, and number 1 must be among
// them, for the header stands in front of it: without it guard.ErrUnsupported. It may
// be called again, here or in another process: as long as the object that it
// made has not been overwritten, it succeeds. If the upload was gone before
// this call and the object is another, the error has the code NoSuchUpload, and its
// outcome is unknown unless the server says so too and the key shows that it was never
// completed. Size and LastModified are zero if the object was overwritten before it
// could be looked at.
func (s *Store) CompleteUpload(ctx context.Context, token guard.Token, key, id string, list []minio.CompletePart, o CompleteOptions) (minio.UploadInfo, error) {
	info, err := s.completeUpload(ctx, token, key, id, list, o)
	return info, s.done(ctx, "complete upload of", key, err)
}

func (s *Store) completeUpload(ctx context.Context, token guard.Token, key, id string, list []minio.CompletePart, o CompleteOptions) (minio.UploadInfo, error) {
	var none minio.UploadInfo
	if err := errors.Join((&PutOptions{IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch}).conditions(), inOrder(token, list)); err != nil {
		return none, notApplied(err)
	}
	g, opened, err := s.ownUpload(ctx, token, key, id)
	if err != nil {
		return none, notApplied(err)
	}
	wish := layout.Wish{IfMatch: unquoted(o.IfMatch), IfAbsent: o.IfNoneMatch != "", Legacy: s.config.Legacy}
	state, info, err := s.lookAgain(ctx, g, key, wish)
	if err != nil {
		return none, notApplied(err)
	}
	if state.Header == opened.Header {
		return minio.UploadInfo{Bucket: s.config.Bucket, Key: key, ETag: state.ETag, Size: info.Size, LastModified: info.LastModified, VersionID: info.VersionID}, nil
	}
	plain := make([]minio.CompletePart, len(list))
	for i, p := range list { // checksums of the caller's are not those of part 1
		plain[i] = minio.CompletePart{PartNumber: p.PartNumber, ETag: strings.Trim(p.ETag, `"`)}
	}
	w := &write{
		store: s, grant: g, key: key, header: opened.Header, wish: wish,
		cargo: &completion{Upload: parts.Upload{Bucket: s.parts, Key: key, ID: opened.Upstream}, store: s, list: plain},
	}
	return w.run(ctx)
}

// inOrder sees that the header comes first in the object.
func inOrder(token guard.Token, list []minio.CompletePart) error {
	for i, p := range list {
		if i > 0 && p.PartNumber <= list[i-1].PartNumber {
			return minio.ErrorResponse{StatusCode: 400, Code: minio.InvalidPartOrder, Message: "The list of parts was not in ascending order."}
		}
	}
	if len(list) == 0 || list[0].PartNumber != 1 {
		return refuse(token, fmt.Errorf("%w: an upload without part 1", guard.ErrUnsupported))
	}
	return nil
}

// completion is a cargo of parts that are there already.
type completion struct {
	parts.Upload

	store *Store
	list  []minio.CompletePart
	spent bool
	lost  bool // one was sent, and not answered
}

func (c *completion) again() bool { return !c.spent }

func (c *completion) whole(int64) bool { return true }

// maxLooks is how often an object is looked for that is said to be there: for a second
// or two.
const maxLooks = 9

// errSpent says that there is nothing left to complete.
var errSpent = errors.New("upload is gone")

func (c *completion) send(ctx context.Context, h layout.Header, cond layout.Condition) (minio.UploadInfo, layout.Reply, error) {
	done, reply, err := c.Complete(ctx, c.list, cond)
	if reply == layout.Accepted {
		var there minio.ObjectInfo
		there, reply, err = c.confirm(ctx, h, cond, done.Proven)
		done.Size, done.LastModified = there.Size, there.LastModified
	}
	if notThere := errors.Is(err, errNotThere); reply == layout.Denied && (notThere || request.IsCode(err, minio.NoSuchUpload)) {
		c.spent, reply = true, layout.Spent
		if notThere { // what the server spoke of may be another completion, which goes on
			reply = layout.Lost
		}
		if c.lost { // it may have been the one
			return done.UploadInfo, reply, fmt.Errorf("%w since a completion whose answer was lost: %s", errSpent, err.Error())
		}
		err = errNoUpload(c.Key, errors.Join(errSpent, err))
	}
	c.lost = c.lost || reply == layout.Lost
	return done.UploadInfo, reply, err
}

// confirm is the store's, but waits a little for what is not there: versitygw
// acknowledges a completion while it carries out another of the same upload.
func (c *completion) confirm(ctx context.Context, h layout.Header, cond layout.Condition, proven bool) (minio.ObjectInfo, layout.Reply, error) {
	for try := 0; ; try++ {
		there, reply, err := c.store.confirm(ctx, &c.Upload, h, cond, proven)
		if reply != layout.Denied || try+1 >= maxLooks || request.Pause(ctx, try) != nil {
			return there, reply, err
		}
	}
}
