package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/frame"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// GetOptions are the options of one read. The zero value reads all.
type GetOptions struct {
	// Offset is where in the payload to begin, in bytes; if it is negative,
	// its last so many bytes are read.
	Offset int64
	// Length is how many bytes to read at most, 0 for all that follow. It must
	// be 0 if Offset is negative.
	Length int64
	// PartNumber reads one part of an object that was uploaded in parts, as it was
	// uploaded; 0 for none. Offset and Length must be 0 then. Of another object
	// part 1 is all of it.
	PartNumber int
	// IfMatch reads only the object with this ETag, else ErrPrecondition.
	IfMatch string
	// IfNoneMatch reads only if the ETag is another, else ErrNotModified.
	IfNoneMatch string
	// IfModifiedSince reads only what is newer, to the second, else
	// ErrNotModified. It does not count beside IfNoneMatch.
	IfModifiedSince time.Time
	// IfUnmodifiedSince reads only what is not newer, to the second, else
	// ErrPrecondition. It does not count beside IfMatch.
	IfUnmodifiedSince time.Time
	// Unseen: the holder is not shown what is read, and so has seen no more of the key
	// than before. What an older token has written since is what its next blind write
	// fails with, ErrOlderWrite. Defaults to false: whoever reads knows what is there.
	Unseen bool
}

// Object is an object that is being read. Close it.
type Object struct {
	io.ReadCloser
	// Info tells of the object; its Size is that of the whole payload. Its ETag
	// is what IfMatch of a later write has to name (I9).
	Info minio.ObjectInfo
	// Offset and Length are what is read of the payload, in bytes.
	Offset, Length int64
	// Parts is how many parts the object was uploaded in, if one was asked for
	// by its number; 0 if it was not uploaded in parts, or the server does not tell.
	Parts int
}

// Get reads an object under token, exclusive or shared, which it claims first
// if this store has not yet. It is one request, which is answered when Get
// returns; but two if the store has not seen the object before and it does not begin at
// the front, or comes to ErrNotModified under a token that writes. ErrNotFound if there
// is none.
//
// Token is refused if the key was written under a newer one, or a newer claim
// is known to this store. That is as much as a read can know: whether token is
// still current when the bytes are used only a write tells.
func (s *Store) Get(ctx context.Context, token guard.Token, key string, o GetOptions) (*Object, error) {
	object, err := s.get(ctx, token, key, &o)
	return object, s.done(ctx, "get", key, err)
}

func (s *Store) get(ctx context.Context, token guard.Token, key string, o *GetOptions) (*Object, error) {
	if o.Length < 0 || o.Offset < 0 && o.Length != 0 || o.PartNumber < 0 || o.PartNumber > 0 && (o.Offset != 0 || o.Length != 0) {
		return nil, fmt.Errorf("no such range: offset %d, length %d, part %d", o.Offset, o.Length, o.PartNumber)
	}
	g, err := s.reader(ctx, token, key)
	if err != nil {
		return nil, err
	}
	const farthest = math.MaxInt64 - layout.HeaderSize
	o.Offset = min(max(o.Offset, -farthest), farthest)
	if o.Length > farthest-max(o.Offset, 0) {
		o.Length = 0 // to the end, then
	}
	o.IfMatch, o.IfNoneMatch = unquoted(o.IfMatch), unquoted(o.IfNoneMatch)
	if o.Offset != 0 || o.PartNumber > 1 {
		return s.getInside(ctx, g, key, o)
	}
	return s.getFront(ctx, g, key, o)
}

// getFront reads the header and the payload behind it by one request.
func (s *Store) getFront(ctx context.Context, g layout.Grant, key string, o *GetOptions) (*Object, error) {
	var opts minio.GetObjectOptions
	o.conditions(&opts)
	opts.PartNumber = o.PartNumber
	if o.Length > 0 {
		_ = opts.SetRange(0, layout.HeaderSize+o.Length-1) // a valid range
	}
	body, info, _, err := s.objects.GetObject(ctx, s.config.Bucket, key, opts)
	switch {
	case request.IsAbsent(err):
		s.told(g, key, o, layout.State{}, ErrNotFound)
		return nil, ErrNotFound
	case request.IsStatus(err, http.StatusNotModified), request.IsStatus(err, http.StatusPreconditionFailed):
		return nil, s.condition(ctx, g, key, o, err)
	case request.IsStatus(err, http.StatusRequestedRangeNotSatisfiable): // an empty object
		if _, _, err := s.front(ctx, g, key, o); err != nil {
			return nil, err
		}
		return nil, err
	case err != nil:
		return nil, explain(err)
	}
	object, err := s.open(g, key, o, body, info)
	if err != nil {
		body.Close()
		return nil, err
	}
	return object, nil
}

// front looks whether key can be read at all.
func (s *Store) front(ctx context.Context, g layout.Grant, key string, o *GetOptions) (layout.State, minio.ObjectInfo, error) {
	state, info, err := s.glance(ctx, g, key)
	if err == nil {
		err = s.readable(g, state)
	}
	if err != nil {
		s.told(g, key, o, state, err)
	}
	return state, info, err
}

// told remembers what the holder is shown: a key in this state, that nothing is new, or
// that there is nothing. Another error shows nothing of what is there (I9).
func (s *Store) told(g layout.Grant, key string, o *GetOptions, state layout.State, err error) {
	if shown := err == nil || errors.Is(err, ErrNotModified) || errors.Is(err, ErrNotFound); shown && !o.Unseen {
		s.saw(g, key, state)
	}
}

// open takes the header from the front of body.
func (s *Store) open(g layout.Grant, key string, o *GetOptions, body io.ReadCloser, info minio.ObjectInfo) (object *Object, err error) {
	sent, parts := info.Size, frame.Parts(&info)
	state, first, err := s.header(g, key, body, &info)
	if err == nil {
		err = s.readable(g, state)
	}
	defer func() { s.told(g, key, o, state, err) }()
	switch {
	case err != nil:
		return nil, err
	case o.IfNoneMatch == "*":
		return nil, ErrNotModified
	case o.Length > 0 && info.Size == 0:
		return nil, rangeError(key)
	case state.Live():
		return &Object{ReadCloser: body, Info: info, Length: sent - layout.HeaderSize, Parts: parts}, nil
	}
	r := io.MultiReader(bytes.NewReader(first), body)
	if o.Length > 0 { // the header that is not there was asked for too
		sent = min(sent, o.Length)
		r = io.LimitReader(r, o.Length)
	}
	return &Object{ReadCloser: struct {
		io.Reader
		io.Closer
	}{r, body}, Info: info, Length: sent, Parts: parts}, nil
}

// getInside reads a part of the payload that does not begin at its front. What
// stands there must be known, so the request names the ETag that was seen.
func (s *Store) getInside(ctx context.Context, g layout.Grant, key string, o *GetOptions) (*Object, error) {
	dated := !o.IfModifiedSince.IsZero() || !o.IfUnmodifiedSince.IsZero()
	state, seen := s.known.State(key)
	var info minio.ObjectInfo
	for try := 0; ; try++ {
		fresh := try > 0 || !seen || dated
		if fresh {
			var err error
			if state, info, err = s.glance(ctx, g, key); err != nil {
				return nil, err
			}
		}
		err := s.readable(g, state)
		if err == nil {
			err = o.judge(state.ETag, info.LastModified)
		}
		var object *Object
		if err == nil {
			object, err = s.getPinned(ctx, key, o, state)
		}
		lost := request.IsStatus(err, http.StatusPreconditionFailed) || request.IsAbsent(err)
		if err == nil || fresh && (!lost || try >= request.MaxConflicts) {
			s.told(g, key, o, state, err)
			return object, err
		}
		s.known.Forget(layout.Grant{}, key)
	}
}

func (s *Store) getPinned(ctx context.Context, key string, o *GetOptions, state layout.State) (*Object, error) {
	var opts minio.GetObjectOptions
	_ = opts.SetMatchETag(state.ETag) // there is one
	front := int64(layout.HeaderSize)
	if state.Bare() {
		front = 0
	}
	switch at := o.Offset + front; {
	case o.PartNumber > 0:
		opts.PartNumber = o.PartNumber
	case o.Offset < 0:
		_ = opts.SetRange(0, o.Offset) // the last bytes
	case o.Length > 0:
		_ = opts.SetRange(at, at+o.Length-1)
	default:
		_ = opts.SetRange(at, 0) // to the end
	}
	body, info, _, err := s.objects.GetObject(ctx, s.config.Bucket, key, opts)
	if err != nil {
		return nil, err
	}
	// More last bytes than there are: the header may be among them.
	at, err := frame.Begin(&info)
	size, err2 := frame.Size(&info)
	if err := errors.Join(err, err2); err != nil {
		body.Close()
		return nil, err
	}
	object := &Object{ReadCloser: body, Offset: max(at-front, 0), Length: info.Size, Parts: frame.Parts(&info)}
	if at < front {
		if size == front {
			body.Close()
			return nil, rangeError(key)
		}
		if _, err := io.CopyN(io.Discard, body, front-at); err != nil {
			body.Close()
			return nil, err
		}
		object.Length -= front - at
	}
	frame.Hide(&info, state, size)
	object.Info = info
	return object, nil
}

// rangeError is what a server answers to a range of an empty payload.
func rangeError(key string) error {
	return minio.ErrorResponse{
		StatusCode: http.StatusRequestedRangeNotSatisfiable, Code: minio.InvalidRange,
		Message: "The requested range is not satisfiable", Key: key,
	}
}
