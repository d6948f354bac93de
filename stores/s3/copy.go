package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// CopyDest is where a copy goes.
type CopyDest struct {
	// Key is the key to be written.
	Key string
	// ReplaceMetadata stores PutOptions' metadata, tags and content headers in
	// place of the source's. Tags of the source are not copied.
	ReplaceMetadata bool
	// PutOptions are those of the write; its conditions always count.
	PutOptions PutOptions
}

// CopySource is where a copy comes from.
type CopySource struct {
	// Key is the key to be read.
	Key string
	// Token is the one to read it under, if it belongs to another resource.
	// Defaults to the one that the copy is written under.
	Token guard.Token
	// IfMatch and IfNoneMatch are the conditions of the read.
	IfMatch, IfNoneMatch string
}

// Copy copies an object under token: a read of one state of the source, and a
// write like Put's of what it read under a header of its own. The bytes pass
// through this process, for S3's CopyObject neither adds a header nor, on every
// store, honours a condition.
func (s *Store) Copy(ctx context.Context, token guard.Token, dst CopyDest, src CopySource) (minio.UploadInfo, error) {
	info, err := s.copy(ctx, token, dst, src)
	return info, s.done(ctx, "copy to", dst.Key, err)
}

func (s *Store) copy(ctx context.Context, token guard.Token, dst CopyDest, src CopySource) (minio.UploadInfo, error) {
	if src.Token == (guard.Token{}) {
		src.Token = token
	}
	if _, err := s.writer(ctx, token, dst.Key); err != nil { // before anything is read
		return minio.UploadInfo{}, notApplied(err)
	}
	from, err := s.get(ctx, src.Token, src.Key, &GetOptions{IfMatch: src.IfMatch, IfNoneMatch: src.IfNoneMatch})
	if err != nil {
		return minio.UploadInfo{}, notApplied(fmt.Errorf("read source %q: %w", src.Key, err))
	}
	defer from.Close()
	pinned := &GetOptions{IfMatch: from.Info.ETag}
	first := io.ReadCloser(from)
	p := &payload{size: from.Info.Size, open: func(ctx context.Context) (io.ReadCloser, error) {
		if r := first; r != nil {
			first = nil
			return r, nil
		}
		r, err := s.get(ctx, src.Token, src.Key, pinned)
		if err != nil {
			return nil, fmt.Errorf("read source %q again: %w", src.Key, err)
		}
		return r, nil
	}}
	o := dst.PutOptions
	if !dst.ReplaceMetadata {
		o = likeSource(o, &from.Info)
	}
	return s.put(ctx, token, dst.Key, p, o, layout.Wish{})
}

// likeSource returns o with what is stored beside the payload of the source.
func likeSource(o PutOptions, from *minio.ObjectInfo) PutOptions {
	o.UserMetadata, o.UserTags = from.UserMetadata, nil
	o.ContentType, o.ContentEncoding, o.Expires = from.ContentType, stripChunked(from.ContentEncoding), from.Expires
	o.ContentDisposition, o.ContentLanguage = from.Metadata.Get("Content-Disposition"), from.Metadata.Get("Content-Language")
	o.CacheControl = from.Metadata.Get("Cache-Control")
	return o
}

// stripChunked removes the coding of the transfer, which some stores keep.
func stripChunked(encoding string) string {
	codings := strings.FieldsFunc(encoding, func(r rune) bool { return r == ',' || r == ' ' })
	return strings.Join(slices.DeleteFunc(codings, func(c string) bool { return c == "aws-chunked" }), ",")
}

// Progress is how far a Frame or a Rebind has come.
type Progress struct {
	// Key is the last one that was looked at, and Err why it could not be done.
	Key string
	Err error
	// Changed, Skipped and Failed count the keys so far; Bytes those of the
	// payloads that were written again.
	Changed, Skipped, Failed int
	Bytes                    int64
}

// Frame frames the objects under prefix that are not framed, where they are,
// under token: bytes and metadata stay (tags do not), and ETags change. Those that
// are framed already are skipped, so it may be run again. It goes on after an object
// that could not be done, tells report of each key, and returns the first error.
//
// Nobody else may write there who does not go through the fence, before,
// during or after it.
func (s *Store) Frame(ctx context.Context, token guard.Token, prefix string, report func(Progress)) error {
	return s.done(ctx, "frame", prefix, s.rewrite(ctx, token, prefix, report, layout.Wish{Legacy: true},
		func(state layout.State) bool { return state.Bare() }))
}

// Rebind gives the keys under prefix that belong to the resource from to the
// resource of token, tombstones included. It claims token, and writes each again under token and
// reports like Frame. From then on tokens of the resource from are refused there:
// see that its holders are gone.
func (s *Store) Rebind(ctx context.Context, token guard.Token, prefix, from string, report func(Progress)) error {
	owner := layout.DigestOf(from)
	return s.done(ctx, "rebind", prefix, s.rewrite(ctx, token, prefix, report, layout.Wish{From: owner},
		func(state layout.State) bool { return state.Header.Resource == owner && state.Header.Number > 0 }))
}

func (s *Store) rewrite(ctx context.Context, token guard.Token, prefix string, report func(Progress), wish layout.Wish, which func(layout.State) bool) error {
	if report == nil {
		report = func(Progress) {}
	}
	// Anew, for a key that had gone to another resource does not tell any more
	// whom it was closed to.
	err := errors.Join(token.Validate(), token.MayWrite())
	if err == nil {
		s.claims.forget(token)
		_, err = s.claimed(ctx, token)
	}
	if err != nil {
		return notApplied(err)
	}
	var p Progress
	var failed error
	for page, err := range s.pages(ctx, ListOptions{Prefix: prefix, Recursive: true}) {
		if err != nil {
			return err
		}
		for i := range page {
			if layout.Reserved(page[i].Key) {
				continue
			}
			p.Key = page[i].Key
			var size int64
			var changed bool
			size, changed, p.Err = s.rewriteOne(ctx, token, p.Key, wish, which)
			switch {
			case p.Err != nil && ctx.Err() != nil:
				return p.Err
			case p.Err != nil:
				p.Failed++
				if failed == nil {
					failed = fmt.Errorf("%q: %w", p.Key, p.Err)
				}
			case changed:
				p.Changed, p.Bytes = p.Changed+1, p.Bytes+size
			default:
				p.Skipped++
			}
			report(p)
		}
	}
	if failed != nil {
		return fmt.Errorf("%d of %d keys failed, first %w", p.Failed, p.Failed+p.Changed+p.Skipped, failed)
	}
	return nil
}

// rewriteOne writes a key again as it is, if it is one of those.
func (s *Store) rewriteOne(ctx context.Context, token guard.Token, key string, wish layout.Wish, which func(layout.State) bool) (int64, bool, error) {
	g, err := s.writer(ctx, token, key)
	if err != nil {
		return 0, false, err
	}
	state, info, err := s.look(ctx, g, key)
	if err != nil || !which(state) {
		return 0, false, err
	}
	if state.Deleted() {
		wish.Delete = true
		w := &write{store: s, grant: g, key: key, wish: wish, cargo: &single{store: s, key: key, payload: &payload{at: strings.NewReader("")}}}
		_, err := w.run(ctx)
		return 0, true, err
	}
	p := &payload{size: info.Size, open: func(ctx context.Context) (io.ReadCloser, error) { return s.raw(ctx, key, state) }}
	o := likeSource(PutOptions{IfMatch: state.ETag}, &info)
	_, err = s.put(ctx, token, key, p, o, wish)
	if errors.Is(err, ErrPrecondition) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return info.Size, true, err
}

// raw reads the payload of a key in one state, whoever it belongs to.
func (s *Store) raw(ctx context.Context, key string, state layout.State) (io.ReadCloser, error) {
	var opts minio.GetObjectOptions
	_ = opts.SetMatchETag(state.ETag) // there is one
	body, _, _, err := s.core.GetObject(ctx, s.config.Bucket, key, opts)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	if state.Live() {
		if _, err := io.CopyN(io.Discard, body, layout.HeaderSize); err != nil {
			body.Close()
			return nil, fmt.Errorf("read %q: %w", key, err)
		}
	}
	return body, nil
}
