package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

var (
	errWatchEnded = errors.New("watch ended")
	errWatchQuiet = errors.New("watch was quiet for long")
)

// watch is a watch for the deletion of one key.
type watch struct {
	events clientv3.WatchChan
	quiet  time.Duration // after which it is not trusted any more
	stop   func()
	// renew makes later watches use another stream.
	renew func()
}

// watchDelete watches key for its deletion from the given revision on, or from
// now on if that is 0. It returns when etcd has confirmed the watch, or when
// it has not in time, or when ctx has ended.
func (l *Locker) watchDelete(ctx context.Context, key string, from int64) *watch {
	// The client shares one stream among watches with the same metadata. Ours
	// have a stream of their own, and get a new one after a failure: a stream
	// keeps the auth token it was opened with, and stays with its member though
	// that hangs. Hence the locker's context: the caller's may have metadata.
	stream := l.stream.Load()
	own := metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(l.ctx), "fence-locker", fmt.Sprint(l.name, "-", stream))
	own, cancel := context.WithCancel(own)
	detach := context.AfterFunc(ctx, cancel)
	hangs := time.AfterFunc(l.config.TTL/3, cancel)
	defer hangs.Stop()
	return &watch{
		events: l.client.Watch(own, key, clientv3.WithRev(from), clientv3.WithFilterPut(), clientv3.WithCreatedNotify()),
		quiet:  l.config.TTL,
		stop: func() {
			detach()
			cancel()
		},
		renew: func() { l.stream.CompareAndSwap(stream, stream+1) },
	}
}

// created returns the revision at which etcd confirmed the watch: every later
// deletion is an event.
func (w *watch) created(ctx context.Context) (int64, error) {
	answer, err := w.next(ctx, nil)
	if err != nil {
		return 0, err
	}
	return answer.Header.GetRevision(), nil
}

// deleted returns nil when the key was deleted, and an error when it cannot
// tell. A watch that is quiet for a TTL is one such error. The member it is on
// may hang; also, the client resumes a broken watch by itself, and servers had
// bugs that lose an event then. Nobody shall wait for ever because of that.
func (w *watch) deleted(ctx context.Context) error {
	quiet := time.NewTimer(w.quiet)
	defer quiet.Stop()
	for {
		answer, err := w.next(ctx, quiet.C)
		if err != nil {
			return err
		}
		if len(answer.Events) != 0 {
			return nil
		}
	}
}

func (w *watch) next(ctx context.Context, quiet <-chan time.Time) (clientv3.WatchResponse, error) {
	select {
	case answer, open := <-w.events:
		err := answer.Err()
		if err == nil && !open {
			err = errWatchEnded
		}
		if err != nil && ctx.Err() == nil {
			w.renew()
		}
		return answer, err
	case <-quiet:
		w.renew()
		return clientv3.WatchResponse{}, errWatchQuiet
	case <-ctx.Done():
		return clientv3.WatchResponse{}, ctx.Err()
	}
}
