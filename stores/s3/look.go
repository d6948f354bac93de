package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/frame"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// look is glance, and what it saw counts as seen under g.
func (s *Store) look(ctx context.Context, g layout.Grant, key string) (layout.State, minio.ObjectInfo, error) {
	state, info, err := s.glance(ctx, g, key)
	if err == nil {
		s.saw(g, key, state)
	}
	return state, info, err
}

// saw remembers in which state g has seen a key: that nothing is there too, if there
// is somebody who has.
func (s *Store) saw(g layout.Grant, key string, state layout.State) {
	if state.Absent() && g == (layout.Grant{}) {
		s.known.Forget(g, key)
		return
	}
	s.known.Set(g, key, state)
}

// glance reads the header of an object: its state, and what a HEAD would tell. It
// is one request, but two for an empty object. The info's size is that of the
// payload. Nobody has seen more of the key by that than before (I9).
func (s *Store) glance(ctx context.Context, g layout.Grant, key string) (layout.State, minio.ObjectInfo, error) {
	var opts minio.GetObjectOptions
	_ = opts.SetRange(0, layout.HeaderSize-1) // a valid range
	body, info, _, err := s.objects.GetObject(ctx, s.config.Bucket, key, opts)
	if request.IsStatus(err, http.StatusRequestedRangeNotSatisfiable) { // no byte to read
		info, err = s.core.StatObject(ctx, s.config.Bucket, key, minio.StatObjectOptions{})
		body = io.NopCloser(strings.NewReader(""))
	}
	if request.IsAbsent(err) {
		s.saw(layout.Grant{}, key, layout.State{})
		return layout.State{}, minio.ObjectInfo{}, nil
	}
	if err != nil {
		return layout.State{}, minio.ObjectInfo{}, fmt.Errorf("read header: %w", explain(err))
	}
	defer body.Close()
	state, _, err := s.header(g, key, body, &info)
	return state, info, err
}

// header reads the header from the front of an object's body, and makes info
// that of the payload. It returns what it read of the body.
func (s *Store) header(g layout.Grant, key string, body io.Reader, info *minio.ObjectInfo) (layout.State, []byte, error) {
	state, size, first, err := frame.Read(body, info)
	if errors.Is(err, layout.ErrDamaged) || errors.Is(err, request.ErrNoETag) {
		err = unsupported(g.Token, err)
	}
	if err != nil {
		return state, nil, err
	}
	frame.Hide(info, state, size)
	s.saw(layout.Grant{}, key, state)
	return state, first, nil
}

// reader returns the grant under which key may be read, or the bucket listed if it
// is ""; the zero Grant if that may be done without a token.
func (s *Store) reader(ctx context.Context, token guard.Token, key string) (layout.Grant, error) {
	if token == (guard.Token{}) {
		if !s.config.ReadWithoutToken {
			return layout.Grant{}, refuse(token, guard.ErrNoToken)
		}
		if layout.Reserved(key) {
			return layout.Grant{}, refuse(token, errReserved)
		}
		if _, bound := s.ResourceOf(key); !bound && s.config.OnlyPrefixes && key != "" {
			return layout.Grant{}, refuse(token, errUnbound)
		}
		return layout.Grant{}, nil
	}
	g, err := s.claimed(ctx, token)
	if err == nil && key != "" {
		if err = s.mine(token, key); s.config.ReadWithoutToken && errors.Is(err, guard.ErrNoToken) {
			err = nil
		}
	}
	return g, err
}

// readable decides whether the object in this state may be read under g:
// nothing to read is ErrNotFound.
func (s *Store) readable(g layout.Grant, state layout.State) error {
	if g != (layout.Grant{}) {
		err := g.Admits(state)
		if lenient := s.config.ReadWithoutToken && errors.Is(err, guard.ErrNoToken); err != nil && !lenient {
			return err
		}
	}
	if state.Bare() && !s.config.Legacy {
		return unsupported(g.Token, layout.ErrBare)
	}
	if !state.Exists() {
		return ErrNotFound
	}
	return nil
}

// Stat tells of an object what a HEAD would, without its payload. The size is
// that of the payload; checksums are not told, for what the server knows are
// those of the framed object. ErrNotFound if there is none. Of the options only
// the conditions and Unseen count.
func (s *Store) Stat(ctx context.Context, token guard.Token, key string, o GetOptions) (minio.ObjectInfo, error) {
	info, err := s.stat(ctx, token, key, &o)
	return info, s.done(ctx, "stat", key, err)
}

func (s *Store) stat(ctx context.Context, token guard.Token, key string, o *GetOptions) (minio.ObjectInfo, error) {
	o.IfMatch, o.IfNoneMatch = unquoted(o.IfMatch), unquoted(o.IfNoneMatch)
	g, err := s.reader(ctx, token, key)
	if err != nil {
		return minio.ObjectInfo{}, err
	}
	state, info, err := s.glance(ctx, g, key)
	if err == nil {
		err = s.readable(g, state)
	}
	if err == nil {
		err = o.judge(state.ETag, info.LastModified)
	}
	s.told(g, key, o, state, err)
	if err != nil {
		return minio.ObjectInfo{}, err
	}
	return info, nil
}
