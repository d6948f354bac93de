package etcdlock

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

var errWatchEnded = errors.New("watch ended")

// watch is a watch for the deletion of one key.
type watch struct {
	events clientv3.WatchChan
	stop   func()
	broken func()
}

// watchDelete watches key for its deletion from the given revision on, or from
// now on if that is 0. It returns when etcd has confirmed the watch, or when
// ctx has ended.
func (l *Locker) watchDelete(ctx context.Context, key string, from int64) *watch {
	// The client shares one stream among watches with the same metadata. Ours
	// have a stream of their own, and get a new one after a failure, since a
	// stream keeps the auth token it was opened with. Hence the locker's
	// context: the caller's may carry metadata.
	stream := l.stream.Load()
	own := metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(l.ctx), "fence-locker", fmt.Sprint(l.name, "-", stream))
	own, cancel := context.WithCancel(own)
	detach := context.AfterFunc(ctx, cancel)
	return &watch{
		events: l.client.Watch(own, key, clientv3.WithRev(from), clientv3.WithFilterPut(), clientv3.WithCreatedNotify()),
		stop: func() {
			detach()
			cancel()
		},
		broken: func() { l.stream.CompareAndSwap(stream, stream+1) },
	}
}

// created returns the revision at which etcd confirmed the watch: every later
// deletion is an event.
func (w *watch) created(ctx context.Context) (int64, error) {
	answer, err := w.next(ctx)
	if err != nil {
		return 0, err
	}
	return answer.Header.GetRevision(), nil
}

func (w *watch) next(ctx context.Context) (clientv3.WatchResponse, error) {
	select {
	case answer, open := <-w.events:
		err := answer.Err()
		if err == nil && !open {
			err = errWatchEnded
		}
		if err != nil && ctx.Err() == nil {
			w.broken()
		}
		return answer, err
	case <-ctx.Done():
		return clientv3.WatchResponse{}, ctx.Err()
	}
}

// deleted returns nil when the key was deleted, and an error when the watch or
// ctx ended first.
func (w *watch) deleted(ctx context.Context) error {
	for {
		answer, err := w.next(ctx)
		if err != nil {
			return err
		}
		if len(answer.Events) != 0 {
			return nil
		}
	}
}
