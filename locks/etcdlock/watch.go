package etcdlock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

var (
	// errMissed: the deletion may have been before the watch began.
	errMissed     = errors.New("watch began late")
	errWatchQuiet = errors.New("watch stream is quiet")
)

// maxSpare is how many watches are kept though nobody wants them.
const maxSpare = 256

// watches are those of a Locker, each for the deletion of one key. They share a
// stream and its two goroutines, which are there while there are watches. The
// client's own Watch has a goroutine for each.
//
// A watch outlives who wanted it: names of keys are used again, and contenders
// that take turns stand behind the same one each time. It is canceled at the
// second deletion in a row that nobody wanted, or when it has not been wanted
// for a while.
type watches struct {
	remote pb.WatchClient
	ttl    time.Duration
	logger *slog.Logger
	ctx    context.Context // ends with the Locker
	run    func(func())    // in a goroutine of the Locker

	mu      sync.Mutex
	keys    map[string]*watch
	spare   int     // how many of them nobody wants
	running bool    // serve is
	stream  *stream // nil if there is none
}

// watch is that of one key.
type watch struct {
	key string
	// from is the revision to begin at, 0 for now: etcd serves watches that
	// begin in the past from a loop that runs every 100 ms. It must not be a
	// revision to come, or etcd gives no sign of life until that has come.
	from int64
	id   int64 // etcd's name for it, if confirmed
	// since is the revision after which every deletion is seen here; 0 until
	// etcd has confirmed the watch.
	since    int64
	gone     int64 // revision of the last deletion that was seen
	wants    map[*want]struct{}
	unwanted int  // deletions since somebody wanted one
	recent   bool // it was wanted since the last look
	denied   bool // etcd refused it on the stream before
}

// want is for a deletion of key after the revision after.
type want struct {
	key   string
	after int64
	// past: nobody has looked at the key since, so a new watch begins there.
	past bool
	// patient: it is not told that the stream broke, but errMissed when the
	// watch is on another one.
	patient bool
	// tell is called once, and must not block: with nil for the deletion, and
	// with an error if it cannot be told any more. The key must be looked at
	// then.
	tell func(error)
	over bool // it was dropped
}

func newWatches(l *Locker) *watches {
	return &watches{
		remote: pb.NewWatchClient(l.client.ActiveConnection()),
		ttl:    l.config.TTL,
		logger: l.config.Logger,
		ctx:    l.ctx,
		run:    l.sessions.Go,
		keys:   map[string]*watch{},
	}
}

// await waits for a deletion of key after the given revision. It returns nil if
// there was one, and an error if key must be looked at, or if ctx has ended.
// Once in a TTL it must be in any case: servers had bugs that lose an event, and
// nobody shall wait for ever because of that.
func (ws *watches) await(ctx context.Context, key string, after int64) error {
	told := make(chan error, 1)
	w := &want{key: key, after: after, tell: func(err error) { told <- err }}
	ws.want(w)
	defer ws.drop(w)
	quiet := time.NewTimer(ws.ttl)
	defer quiet.Stop()
	select {
	case err := <-told:
		return err
	case <-quiet.C:
		return errMissed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// want has w told, until it is dropped.
func (ws *watches) want(w *want) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.over || ws.ctx.Err() != nil {
		return
	}
	k := ws.keys[w.key]
	switch {
	case k == nil:
		k = &watch{key: w.key, wants: map[*want]struct{}{}}
		if w.past {
			k.from = w.after
		}
		ws.keys[k.key] = k
		ws.spare++
		if ws.stream != nil {
			ws.stream.ask(k)
		}
	case k.gone > w.after:
		w.tell(nil)
		return
	case k.since > w.after:
		w.tell(errMissed)
		return
	}
	if len(k.wants) == 0 {
		ws.spare--
	}
	k.wants[w] = struct{}{}
	k.unwanted, k.recent = 0, true
	if !ws.running {
		ws.running = true
		ws.run(ws.serve)
	}
}

// drop has w not told any more.
func (ws *watches) drop(w *want) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.over = true
	if k := ws.keys[w.key]; k != nil {
		ws.forget(k, w)
	}
}

// tell tells those who want k err, if they are to be told.
func (ws *watches) tell(k *watch, err error, those func(*want) bool) {
	for w := range k.wants {
		if those(w) {
			ws.forget(k, w)
			w.tell(err)
		}
	}
}

func (ws *watches) forget(k *watch, w *want) {
	if _, ok := k.wants[w]; !ok {
		return
	}
	delete(k.wants, w)
	if len(k.wants) == 0 {
		if ws.spare++; ws.spare > maxSpare {
			ws.remove(k)
		}
	}
}

// remove cancels a watch that nobody wants.
func (ws *watches) remove(k *watch) {
	delete(ws.keys, k.key)
	ws.spare--
	if s := ws.stream; s != nil && k.since != 0 {
		s.cancel(k)
	}
}

// deleted is told by etcd: key was deleted at rev.
func (ws *watches) deleted(key string, rev int64) {
	k := ws.keys[key]
	if k == nil {
		return
	}
	k.gone = max(k.gone, rev)
	if len(k.wants) != 0 {
		ws.tell(k, nil, func(w *want) bool { return rev > w.after })
		return
	}
	if k.unwanted++; k.unwanted > 1 {
		ws.remove(k)
	}
}

// confirmed is told by etcd: the watch began, at the latest at rev.
func (ws *watches) confirmed(k *watch, rev int64) {
	k.since, k.denied = rev, false
	if k.from != 0 {
		k.since = k.from
	}
	ws.tell(k, errMissed, func(w *want) bool { return k.since > w.after })
}

// sweep removes what nobody has wanted since the last time.
func (ws *watches) sweep() {
	for _, k := range ws.keys {
		if len(k.wants) == 0 && !k.recent {
			ws.remove(k)
		}
		k.recent = false
	}
}
