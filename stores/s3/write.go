package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// write is one write of a key, on its way to an outcome.
type write struct {
	store *Store
	grant layout.Grant
	key   string
	wish  layout.Wish
	cargo cargo

	header layout.Header
	state  layout.State // of the key, as far as known
	fresh  bool         // it was looked at in this call
}

// run does the write: look at the key unless its state is known, decide, send,
// and find out what became of it, until that is known or nothing more can be
// done. Only what cannot happen twice is sent twice: a request names the state
// that it is meant for, and that state does not come back.
func (w *write) run(ctx context.Context) (minio.UploadInfo, error) {
	kind := layout.Live
	if w.wish.Delete {
		kind = layout.Tombstone
	}
	if w.header == (layout.Header{}) {
		w.header = w.grant.Header(kind, layout.NewNonce())
	}
	state, current := w.store.known.Current(w.grant, w.key)
	if w.state = state; !current {
		if err := w.look(ctx); err != nil {
			return minio.UploadInfo{}, notApplied(err)
		}
	}
	for try := 0; ; try++ {
		c, err := w.decide(ctx)
		if err != nil {
			return minio.UploadInfo{}, notApplied(err)
		}
		if c.Nothing {
			return minio.UploadInfo{}, nil
		}
		info, fate, err := w.attempt(ctx, c)
		switch fate {
		case layout.Applied:
			if info.ETag != "" {
				w.store.known.Set(w.grant, w.key, layout.State{ETag: info.ETag, Header: w.header})
			}
			return info, nil
		case layout.Failed:
			if err := w.mayRepeat(ctx, c, try, err); err != nil {
				return minio.UploadInfo{}, notApplied(err)
			}
		case layout.Pending, layout.Unknown:
			return minio.UploadInfo{}, w.unknown(err)
		}
	}
}

// look looks at the key before anything was sent.
func (w *write) look(ctx context.Context) (err error) {
	w.state, _, err = w.store.lookAgain(ctx, w.grant, w.key, w.wish)
	w.fresh = true
	return err
}

// decide decides by what is known of the key. That there is nothing to send is
// only concluded from what was seen now: another process may hold the same token.
// A condition of the caller's that is false tells nothing of what is there instead, so
// that counts for nothing (I9).
func (w *write) decide(ctx context.Context) (layout.Condition, error) {
	c, err := w.grant.Decide(w.state, w.wish)
	if (err != nil || c.Nothing) && !w.fresh {
		state, _, failed := w.store.glance(ctx, w.grant, w.key)
		if failed != nil {
			return c, failed
		}
		w.state, w.fresh = state, true
		if c, err = w.grant.Decide(state, w.wish); !errors.Is(err, ErrPrecondition) || w.grant.Wrote(state.Header) {
			w.store.saw(w.grant, w.key, state)
		}
	}
	return c, err
}

// attempt sends the cargo and finds out what became of it. If it may be under
// way still, it is sent again: at most one of the two is carried out. The
// error is why it was not, or may not have been.
func (w *write) attempt(ctx context.Context, c layout.Condition) (minio.UploadInfo, layout.Fate, error) {
	reply := layout.Denied // nothing was sent yet
	for try := 0; ; try++ {
		info, r, err := w.cargo.send(ctx, w.header, c)
		reply = reply.Then(r)
		if reply == layout.Accepted {
			return info, layout.Applied, nil
		}
		w.store.known.Doubt(w.key)
		w.fresh = false
		if reply == layout.Denied && !request.Raced(err) {
			return info, layout.Failed, err
		}
		found, seen := w.settle(ctx)
		if seen != nil {
			if reply == layout.Denied {
				return info, layout.Failed, errors.Join(err, seen)
			}
			return info, layout.Unknown, errors.Join(err, seen)
		}
		fate := w.grant.Settle(c, w.header.Nonce, reply, w.state)
		switch {
		case fate == layout.Applied && !w.cargo.whole(found.Size):
			return info, layout.Unknown, errors.Join(fmt.Errorf("the server has kept %d bytes of the payload", found.Size), err)
		case fate == layout.Applied:
			return minio.UploadInfo{
				Bucket: w.store.config.Bucket, Key: w.key, ETag: found.ETag, Size: found.Size,
				LastModified: found.LastModified, VersionID: found.VersionID,
			}, fate, nil
		case fate != layout.Pending, try+1 >= request.MaxTries, !w.cargo.again(), request.Pause(ctx, try) != nil:
			return info, fate, err
		}
	}
}

// settle looks at the key after a request failed, even if the caller's context
// has ended.
func (w *write) settle(ctx context.Context) (minio.ObjectInfo, error) {
	ctx, cancel := w.store.settling(ctx)
	defer cancel()
	for try := 0; ; try++ {
		state, info, err := w.store.look(ctx, w.grant, w.key)
		if err == nil || guard.OutcomeOf(err) == guard.Refused {
			w.state, w.fresh = state, true
			return info, err
		}
		if try+1 >= request.MaxTries || request.Pause(ctx, try) != nil {
			return info, err
		}
	}
}

// mayRepeat returns nil if the write, which certainly was not carried out, is
// to be tried again by what the key looks like now, and otherwise why not.
func (w *write) mayRepeat(ctx context.Context, c layout.Condition, try int, err error) error {
	switch {
	case w.fresh && !c.Holds(w.state):
		if _, no := w.grant.Decide(w.state, w.wish); no != nil {
			return no
		}
		if !w.grant.Wrote(w.state.Header) { // an older holder's, or past the fence
			return fmt.Errorf("%w: %w", ErrOlderWrite, err)
		}
	case errors.Is(err, errSpent):
		return err
	case request.IsConflict(err), request.IsStatus(err, http.StatusPreconditionFailed), request.IsCode(err, minio.NoSuchUpload), errors.Is(err, errNotThere):
		// Somebody was there at the same moment, and came to nothing; or ended
		// the upload, as AbortUploads does.
		if try+1 >= request.MaxConflicts {
			return w.neverAgain(err)
		}
	default:
		return err
	}
	if !w.cargo.again() {
		return conflict(err)
	}
	if ended := request.Pause(ctx, try); ended != nil {
		return errors.Join(ended, err)
	}
	return nil
}

// neverAgain is the error of a write that lost in the same state of the key, time
// after time. If there is nothing to be seen that a creation could lose to, it is not
// another write: to some stores a folder is in the way of a file.
func (w *write) neverAgain(err error) error {
	if w.fresh && w.state.Absent() && request.IsStatus(err, http.StatusPreconditionFailed) {
		return unsupported(w.grant.Token, fmt.Errorf("something that is no object is in the way of the key: %w", err))
	}
	return conflict(err)
}

func conflict(err error) error { return fmt.Errorf("%w: %w", ErrConflict, err) }

// unknown is the error of a write of which nobody knows what became. If the
// token has been overtaken since, it says so.
func (w *write) unknown(err error) error {
	if w.fresh {
		if _, refused := w.grant.Decide(w.state, w.wish); guard.OutcomeOf(refused) == guard.Refused {
			err = errors.Join(refused, err)
		}
	}
	return guard.WithOutcome(err, guard.Unknown)
}
