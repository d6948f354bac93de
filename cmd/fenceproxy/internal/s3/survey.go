package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// survey counts the keys below prefix whose state is wanted, as the command that
// changes them would. It reads the header of each object, and writes nothing.
func survey(ctx context.Context, b *connect.Bucket, prefix string, wanted func(layout.State) bool, report func(s3store.Progress)) (s3store.Progress, error) {
	var p s3store.Progress
	for info := range b.Client.ListObjectsIter(ctx, b.Name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if info.Err != nil {
			return p, info.Err
		}
		if layout.Reserved(info.Key) {
			continue
		}
		p.Key = info.Key
		state, size, err := stateOf(ctx, b, info)
		switch {
		case errors.Is(err, layout.ErrDamaged), err == nil && info.ETag == "": // it has no state that could be named
			p.Failed++
		case err != nil:
			return p, err
		case wanted(state):
			p.Changed, p.Bytes = p.Changed+1, p.Bytes+size
		default:
			p.Skipped++
		}
		report(p)
	}
	return p, ctx.Err()
}

// stateOf reads the header of an object, and returns it with the size of the
// payload. An object that is gone by now is absent.
func stateOf(ctx context.Context, b *connect.Bucket, info minio.ObjectInfo) (layout.State, int64, error) {
	state := layout.State{ETag: info.ETag}
	if info.Size < layout.TombstoneSize { // there is no header in it, if it has a byte at all
		return state, info.Size, nil
	}
	var opts minio.GetObjectOptions
	if err := opts.SetRange(0, layout.HeaderSize-1); err != nil {
		return state, 0, err
	}
	core := minio.Core{Client: b.Client}
	body, _, _, err := core.GetObject(ctx, b.Name, info.Key, opts)
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return layout.State{}, 0, nil
	}
	if err != nil {
		return state, 0, fmt.Errorf("read header of %q: %w", info.Key, err)
	}
	defer body.Close()
	first, err := io.ReadAll(body)
	if err != nil {
		return state, 0, fmt.Errorf("read header of %q: %w", info.Key, err)
	}
	size := info.Size
	state.Header, err = layout.Parse(first, size)
	switch {
	case errors.Is(err, layout.ErrBare):
		err = nil
	case err == nil:
		size = max(size-layout.HeaderSize, 0)
	}
	return state, size, err
}
