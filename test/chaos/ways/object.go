package ways

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// client is a client of S3 under a token. Of every error guard.OutcomeOf tells what
// became of the act.
type client interface {
	// get reads an object and its ETag; errAbsent if there is none.
	get(ctx context.Context, key string) (body []byte, etag string, err error)
	// put writes an object if it has the ETag, or, if that is "", if there is none.
	put(ctx context.Context, key string, body []byte, etag string) (newETag string, err error)
	close()
}

// fullClient is one that knows more than that.
type fullClient interface {
	client
	// parts is put by an upload in parts, whose end is asked for as often as
	// again says.
	parts(ctx context.Context, key string, body []byte, etag string, again func() bool) (newETag string, err error)
	// copy is put of what the object from has if it has the ETag source.
	copy(ctx context.Context, key, etag, from, source string) (newETag string, err error)
	// remove deletes an object that has the ETag.
	remove(ctx context.Context, key, etag string) error
}

var errAbsent = errors.New("no such object")

// objectTenure writes what it has read, by its ETag.
type objectTenure struct {
	client client
	key    string
	dice   *rand.Rand
	// inParts: each write is an upload in parts.
	inParts bool

	etag string
}

func (t *objectTenure) Leave() { t.client.close() }

func (t *objectTenure) Read(ctx context.Context) (history.State, error) {
	t.etag = ""
	body, etag, err := t.client.get(ctx, t.key)
	if errors.Is(err, errAbsent) {
		return history.State{}, nil
	}
	if err != nil {
		return history.State{}, err
	}
	var e history.Entry
	if err := json.Unmarshal(body, &e); err != nil {
		return history.State{}, fmt.Errorf("read %q: %w", body, err)
	}
	t.etag = etag
	return e.State, nil
}

func (t *objectTenure) Write(ctx context.Context, e history.Entry, pause func()) (history.State, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return history.State{}, err
	}
	named := t.etag
	t.etag = ""
	pause()
	etag, err := t.write(ctx, body, named, pause)
	if err != nil {
		return history.State{}, err
	}
	t.etag = etag
	return e.State, nil
}

// write takes one of the ways in which S3 writes an object.
func (t *objectTenure) write(ctx context.Context, body []byte, named string, pause func()) (etag string, err error) {
	full, ok := t.client.(fullClient)
	dice := t.dice.IntN(16)
	switch {
	case ok && (t.inParts || dice == 0):
		return full.parts(ctx, t.key, body, named, func() bool { pause(); return t.dice.IntN(2) == 0 })
	case ok && dice == 1:
		// Others of this resource write it as well, the ones before this one perhaps.
		draft := t.key + ".draft"
		_, seen, err := t.client.get(ctx, draft)
		if err != nil && !errors.Is(err, errAbsent) {
			return "", before(err)
		}
		source, err := t.client.put(ctx, draft, body, seen)
		if err != nil {
			return "", before(err)
		}
		pause()
		return full.copy(ctx, t.key, named, draft, source)
	}
	return t.client.put(ctx, t.key, body, named)
}

// before is the outcome of a write that ended before it was sent.
func before(err error) error {
	if guard.OutcomeOf(err) == guard.Refused {
		return err
	}
	return guard.WithOutcome(err, guard.NotApplied)
}

var _ Remover = (*objectTenure)(nil)

// Removable reports whether there is an object, and the client can.
func (t *objectTenure) Removable() bool {
	_, ok := t.client.(fullClient)
	return ok && t.etag != ""
}

// Remove deletes the object that was read or written last.
func (t *objectTenure) Remove(ctx context.Context, pause func()) error {
	named := t.etag
	t.etag = ""
	pause()
	return t.client.(fullClient).remove(ctx, t.key, named) //nolint:forcetypeassert // it is Removable
}
