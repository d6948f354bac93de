package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/payload"
)

// Filling is how a payload is divided.
type Filling struct {
	// Front comes in front of the payload.
	Front []byte
	// PartSize is the size of each part but the last.
	PartSize int64
	// First is the first part, if it has been read from the payload already, with
	// room for Front.
	First []byte
}

// Fill uploads a payload part by part. What was uploaded before is not part of
// the upload any more.
func (u *Upload) Fill(ctx context.Context, p *payload.Payload, f Filling) error {
	u.parts, u.size = nil, 0
	var err error
	if whole := p.Section(); whole != nil {
		err = u.sections(ctx, whole, f)
	} else {
		err = u.stream(ctx, p, f)
	}
	slices.SortFunc(u.parts, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	return err
}

// part uploads one part that can be read again. The first so many bytes of it are
// in front of the payload.
func (u *Upload) part(ctx context.Context, number int, front []byte, p *payload.Payload, ahead int64) error {
	done, err := u.Part(ctx, number, front, p)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.size += p.Size() - ahead
	u.parts = append(u.parts, minio.CompletePart{
		PartNumber: number, ETag: done.ETag, ChecksumCRC32: done.ChecksumCRC32, ChecksumCRC32C: done.ChecksumCRC32C,
		ChecksumSHA1: done.ChecksumSHA1, ChecksumSHA256: done.ChecksumSHA256,
	})
	return nil
}

// sections uploads a payload that can be read anywhere, several parts at once
// and none of them in memory.
func (u *Upload) sections(ctx context.Context, whole *io.SectionReader, f Filling) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(u.Bucket.Parallel, 1))
	for number, at := 1, int64(0); at < whole.Size(); number++ {
		size := min(f.PartSize-int64(len(f.Front)), whole.Size()-at)
		front, p := f.Front, payload.At(whole, at, size)
		group.Go(func() error { return u.part(ctx, number, front, p, 0) })
		f.Front, at = nil, at+size
	}
	return group.Wait()
}

// stream uploads a payload that is read from front to back: one part is read
// while another is uploaded.
func (u *Upload) stream(ctx context.Context, p *payload.Payload, f Filling) error {
	r := p.Rest // behind the first part
	if f.First == nil {
		r = func() (io.ReadCloser, error) { return p.Reader(ctx) }
	}
	source, err := r()
	if err != nil {
		return err
	}
	defer source.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(1)
	free := make(chan []byte, 2)
	part, filled := f.First, f.First != nil
	if filled {
		copy(part, f.Front) // which it has room for
	} else {
		part = slices.Clone(f.Front)
	}
	free <- nil
	left := p.Size() // -1: until its end
	for number, at := 1, len(f.Front); ; number++ {
		last := false
		if !filled {
			if part, err = fill(source, part[:at], f.PartSize, left); err != nil {
				break
			}
			if left >= 0 {
				left -= int64(len(part) - at)
			}
			last = left == 0 || left < 0 && int64(len(part)) < f.PartSize
		}
		if len(part) > 0 {
			if number > Most {
				err = fmt.Errorf("payload does not end within %d parts", Most)
				break
			}
			full, ahead := part, int64(at)
			group.Go(func() error {
				err := u.part(ctx, number, nil, payload.At(bytes.NewReader(full), 0, int64(len(full))), ahead)
				free <- full
				return err
			})
		}
		if last {
			break
		}
		filled, at = false, 0
		select {
		case part = <-free:
			if part == nil { // the one before was full, so this will be
				part = make([]byte, 0, f.PartSize)
			}
			continue
		case <-ctx.Done(): // the group has the error
		}
		break
	}
	return errors.Join(group.Wait(), err)
}

// firstRoom is how much of a part is made room for at first, in bytes.
const firstRoom = 64 << 10

// fill reads into part, behind what is in it, until it has size bytes or all that is
// left, -1 for as much as there is. Memory is taken as bytes come.
func fill(r io.Reader, part []byte, size, left int64) ([]byte, error) {
	if left >= 0 {
		size = min(size, int64(len(part))+left)
	}
	for int64(len(part)) < size {
		if len(part) == cap(part) {
			grown := make([]byte, len(part), min(max(4*int64(cap(part)), firstRoom), size))
			copy(grown, part)
			part = grown
		}
		n, err := io.ReadFull(r, part[len(part):min(int64(cap(part)), size)])
		part = part[:len(part)+n]
		switch ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); {
		case ended && left < 0:
			return part, nil
		case err != nil:
			return part, fmt.Errorf("read payload: %w", payload.Unexpected(err))
		}
	}
	return part, nil
}
