package s3store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// upload is a cargo of several parts. They are uploaded once; what makes the
// write happen is the CompleteMultipartUpload, which can be sent again.
type upload struct {
	store    *Store
	key      string
	opts     minio.PutObjectOptions
	checksum minio.ChecksumType
	payload  *payload
	first    []byte // the first part, if the payload's size is not known
	partSize int64

	id string // "" before the parts are uploaded, and after the upload is gone

	mu    sync.Mutex
	parts []minio.CompletePart
	size  int64 // of the payload, once it is uploaded
}

func (s *Store) newUpload(key string, opts minio.PutObjectOptions, sum minio.ChecksumType, p *payload, first []byte) (*upload, error) {
	u := &upload{store: s, key: key, opts: opts, checksum: sum, payload: p, first: first, partSize: s.config.PartSize}
	if p.size >= 0 {
		const mib = 1 << 20
		least := (p.size + layout.HeaderSize + maxParts - 1) / maxParts
		u.partSize = max(u.partSize, (least+mib-1)/mib*mib)
	}
	if u.partSize > maxPartSize {
		return nil, fmt.Errorf("payload of %d bytes is too large", p.size)
	}
	if sum.IsSet() {
		u.opts.UserMetadata["X-Amz-Checksum-Algorithm"] = sum.String()
	}
	return u, nil
}

// again: after a conflict the store may want all parts again.
func (u *upload) again() bool { return u.id != "" || u.payload.again() }

func (u *upload) send(ctx context.Context, h layout.Header, c layout.Condition) (minio.UploadInfo, layout.Reply, error) {
	if u.id == "" {
		if err := u.upload(ctx, h); err != nil {
			u.abort(ctx)
			return minio.UploadInfo{}, layout.Denied, err
		}
	}
	info, reply, err := u.complete(ctx, c)
	if reply == layout.Accepted {
		reply, err = u.confirm(ctx, h, c)
	}
	if reply == layout.Accepted {
		u.store.uploads.remove(u.id)
		u.id = ""
	}
	// A 409 ends the upload, as S3's reference has it; so does somebody's abort.
	if reply == layout.Denied && (isStatus(err, http.StatusConflict) || isStatus(err, http.StatusNotFound) && !isAbsent(err)) {
		u.abort(ctx)
	}
	return info, reply, err
}

func (u *upload) complete(ctx context.Context, c layout.Condition) (minio.UploadInfo, layout.Reply, error) {
	if err := ctx.Err(); err != nil {
		return minio.UploadInfo{}, layout.Denied, err
	}
	opts := minio.PutObjectOptions{ServerSideEncryption: u.opts.ServerSideEncryption}
	condition(&opts, c)
	ctx, w, cancel := once(ctx)
	defer cancel()
	info, err := u.store.core.CompleteMultipartUpload(ctx, u.store.config.Bucket, u.key, u.id, u.parts, opts)
	reply := w.reply(err, false)
	if err != nil {
		err = fmt.Errorf("complete upload: %w", err)
	}
	return ours(info, u.size), reply, err
}

var errNotThere = errors.New("the server acknowledged an upload that it did not complete")

// confirm looks whether an upload that the server says it has completed is
// there. versitygw says so of any upload that is gone, aborted ones included.
func (u *upload) confirm(ctx context.Context, h layout.Header, c layout.Condition) (layout.Reply, error) {
	ctx, cancel := u.store.settling(ctx)
	defer cancel()
	state, _, err := u.store.look(ctx, layout.Grant{}, u.key)
	if err != nil {
		return layout.Lost, err
	}
	if state.Header == h {
		return layout.Accepted, nil
	}
	if c.Holds(state) {
		_, err := u.store.core.ListObjectParts(ctx, u.store.config.Bucket, u.key, u.id, 0, 1)
		if r, answered := responseOf(err); answered && r.Code == minio.NoSuchUpload {
			u.store.uploads.remove(u.id)
			u.id = ""
			return layout.Denied, errNotThere
		}
	}
	return layout.Lost, errNotThere
}

func (u *upload) upload(ctx context.Context, h layout.Header) error {
	if err := u.store.testUploads(ctx); err != nil {
		return err
	}
	u.parts, u.size = nil, 0
	watched, w := watch(ctx)
	id, err := u.store.core.NewMultipartUpload(watched, u.store.config.Bucket, u.key, u.opts)
	if err == nil {
		u.id = id
		u.store.uploads.add(id)
	}
	if w.asked.Load() > 1 || w.reply(err, false) == layout.Lost { // there may be one that nobody knows of
		u.store.abortEmpty(ctx, u.key)
	}
	if err != nil {
		return fmt.Errorf("create upload: %w", err)
	}
	if u.payload.at != nil {
		err = u.sections(ctx, h.Bytes())
	} else {
		err = u.stream(ctx, h.Bytes())
	}
	slices.SortFunc(u.parts, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	return err
}

// sections uploads a payload that can be read anywhere, several parts at once
// and none of them in memory.
func (u *upload) sections(ctx context.Context, front []byte) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(u.store.config.Parallel, 1))
	total := u.payload.size + int64(len(front))
	for number, at := 1, int64(0); at < total; number, at = number+1, at+u.partSize {
		size := min(u.partSize, total-at)
		group.Go(func() error {
			return u.part(ctx, number, size, func() io.Reader {
				if at == 0 {
					return io.MultiReader(bytes.NewReader(front), io.NewSectionReader(u.payload.at, u.payload.base, size-int64(len(front))))
				}
				return io.NewSectionReader(u.payload.at, u.payload.base+at-int64(len(front)), size)
			})
		})
	}
	return group.Wait()
}

// stream uploads a payload that is read from front to back: one part is read
// while another is uploaded.
func (u *upload) stream(ctx context.Context, front []byte) error {
	r := u.payload.once // if there is a first part, it goes on behind it
	if u.first == nil {
		var err error
		if r, err = u.payload.reader(ctx); err != nil {
			return err
		}
	}
	if closer, ok := r.(io.Closer); ok && u.payload.open != nil {
		defer closer.Close()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(1)
	free := make(chan []byte, 2)
	part := u.first
	u.first = nil
	if part == nil {
		part = make([]byte, u.partSize)
	}
	free <- make([]byte, u.partSize)
	copy(part, front)
	err := u.chunks(ctx, group, free, part, r, len(front))
	return errors.Join(group.Wait(), err)
}

// chunks fills part after part, the first from at on, and has them uploaded.
func (u *upload) chunks(ctx context.Context, group *errgroup.Group, free chan []byte, part []byte, r io.Reader, at int) error {
	left := u.payload.size // -1: until its end
	filled := left < 0     // the first part, by measure
	for number := 1; ; number++ {
		n, last := len(part), false
		if !filled {
			want := part[at:]
			if left >= 0 {
				want = want[:min(int64(len(want)), left)]
			}
			read, err := io.ReadFull(r, want)
			short := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if err != nil && (!short || left >= 0) {
				return fmt.Errorf("read payload: %w", unexpected(err))
			}
			if n = at + read; left >= 0 {
				left -= int64(read)
			}
			last = short || left == 0
		}
		if n > 0 {
			if number > maxParts {
				return fmt.Errorf("payload does not end within %d parts", maxParts)
			}
			full, number := part, number
			group.Go(func() error {
				err := u.part(ctx, number, int64(n), func() io.Reader { return bytes.NewReader(full[:n]) })
				free <- full
				return err
			})
		}
		if last {
			return nil
		}
		filled, at = false, 0
		select {
		case part = <-free:
		case <-ctx.Done():
			return nil // the group has the error
		}
	}
}

// part uploads one part, again if it has to: as long as the upload is not
// completed nobody sees it.
func (u *upload) part(ctx context.Context, number int, size int64, open func() io.Reader) error {
	for try := 0; ; try++ {
		opts := minio.PutObjectPartOptions{SSE: u.opts.ServerSideEncryption}
		if u.checksum.IsSet() {
			sum := u.checksum.Hasher()
			if _, err := io.Copy(sum, open()); err != nil {
				return fmt.Errorf("read payload: %w", err)
			}
			opts.CustomHeader = http.Header{}
			opts.CustomHeader.Set(u.checksum.Key(), base64.StdEncoding.EncodeToString(sum.Sum(nil)))
		}
		b := newBody(open(), size)
		done, err := u.store.core.PutObjectPart(ctx, u.store.config.Bucket, u.key, u.id, number, b, size, opts)
		if err == nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.size += size
			if number == 1 {
				u.size -= layout.HeaderSize
			}
			u.parts = append(u.parts, minio.CompletePart{
				PartNumber: number, ETag: done.ETag, ChecksumCRC32: done.ChecksumCRC32, ChecksumCRC32C: done.ChecksumCRC32C,
				ChecksumSHA1: done.ChecksumSHA1, ChecksumSHA256: done.ChecksumSHA256,
			})
			return nil
		}
		_, failed := b.stop()
		b.wait() // memory or a file, and the former is used again
		if failed != nil {
			return fmt.Errorf("read payload: %w", failed)
		}
		if err := u.store.giveUp(ctx, try, err); err != nil {
			return fmt.Errorf("upload part %d: %w", number, err)
		}
	}
}
