package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

// errUnwanted ends a stream without watches.
var errUnwanted = errors.New("no watches")

// stream is one stream of watches; they guard it. It keeps the authentication
// that it was opened with, and stays with its member though that hangs: after a
// failure there is a new one.
type stream struct {
	end  context.CancelCauseFunc
	wake chan struct{} // there is something to send

	asks []*watch // to be created
	// asked is the one that was sent. There is one at a time, since etcd's
	// grpc-proxy confirms them in any order, and under names of its own.
	asked   *watch
	cancels []int64
	ping    bool // ask for a sign of life

	ids    map[int64]*watch // what etcd has confirmed
	worked bool             // it has confirmed one
	heard  bool             // something came since the last look
	silent int              // looks in a row before which nothing had come
}

func (s *stream) prod() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) ask(k *watch) {
	s.asks = append(s.asks, k)
	s.prod()
}

func (s *stream) cancel(k *watch) {
	delete(s.ids, k.id)
	s.cancels = append(s.cancels, k.id)
	s.prod()
}

// serve has a stream as long as there are watches.
func (ws *watches) serve() {
	for pauses := (wait.Pauses{}); ; {
		ctx, end := context.WithCancelCause(clientv3.WithRequireLeader(ws.ctx))
		s := ws.open(end)
		if s == nil {
			end(nil)
			return
		}
		err := ws.converse(ctx, s)
		end(err)
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		ws.broken(err)
		if errors.Is(err, errUnwanted) {
			continue
		}
		ws.logger.Debug("watches ended", keyError, err)
		if s.worked {
			pauses = wait.Pauses{}
		}
		if !pauses.Pause(ws.ctx) {
			return
		}
	}
}

// open makes a stream that asks for all the watches, or nil if there are none.
func (ws *watches) open(end context.CancelCauseFunc) *stream {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.keys) == 0 {
		ws.running = false
		return nil
	}
	s := &stream{end: end, wake: make(chan struct{}, 1), ids: map[int64]*watch{}}
	for _, k := range ws.keys {
		s.ask(k)
	}
	ws.stream = s
	return s
}

// broken forgets the stream, and tells those who wait on it.
func (ws *watches) broken(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.stream = nil
	for _, k := range ws.keys {
		k.from, k.since = 0, 0 // those who want it have to look again
		if !errors.Is(err, errUnwanted) {
			ws.tell(k, err, func(w *want) bool { return !w.patient })
		}
		if len(k.wants) == 0 && ws.keys[k.key] == k {
			ws.remove(k)
		}
	}
}

// converse uses a stream until it breaks.
func (ws *watches) converse(ctx context.Context, s *stream) error {
	opens := time.AfterFunc(ws.ttl/3, func() { s.end(errWatchQuiet) })
	client, err := ws.remote.Watch(ctx)
	opens.Stop()
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		ws.send(ctx, s, client)
	}()
	defer func() {
		s.end(err)
		<-sent
	}()
	for {
		var answer *pb.WatchResponse
		if answer, err = client.Recv(); err != nil {
			return err
		}
		if err = ws.receive(s, answer); err != nil {
			return err
		}
	}
}

func (ws *watches) send(ctx context.Context, s *stream, client grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse]) {
	look := time.NewTicker(ws.ttl / 3)
	defer look.Stop()
	for {
		for request := ws.next(s); request != nil; request = ws.next(s) {
			if client.Send(request) != nil {
				return // Recv tells why
			}
		}
		select {
		case <-s.wake:
		case <-look.C:
			ws.look(s)
		case <-ctx.Done():
			return
		}
	}
}

// look asks for a sign of life, and ends a stream that gave none twice. Once may
// be because a watch that begins in the past is behind: etcd is silent then.
func (ws *watches) look(s *stream) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.sweep()
	if s.silent++; s.heard {
		s.silent = 0
	}
	s.heard, s.ping = false, true
	switch {
	case len(ws.keys) == 0:
		s.end(errUnwanted)
	case s.silent == 2:
		s.end(errWatchQuiet)
	}
}

// next is what to send, nil for nothing.
func (ws *watches) next(s *stream) *pb.WatchRequest {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if n := len(s.cancels) - 1; n >= 0 {
		id := s.cancels[n]
		s.cancels = s.cancels[:n]
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}
	}
	if s.ping {
		s.ping = false
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
	}
	for s.asked == nil && len(s.asks) != 0 {
		k := s.asks[0]
		s.asks = s.asks[1:]
		if ws.keys[k.key] != k {
			continue // removed
		}
		s.asked = k
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
			Key: []byte(k.key), StartRevision: k.from, Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
		}}}
	}
	return nil
}

// receive takes an answer, and returns an error if the stream is of no use any
// more.
func (ws *watches) receive(s *stream, answer *pb.WatchResponse) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	s.heard = true
	switch {
	case answer.Created:
		k := s.asked
		if s.asked = nil; k == nil {
			return errors.New("etcd confirms a watch that it was not asked for")
		}
		s.prod()
		if answer.Canceled {
			return ws.refused(k, answer.CancelReason)
		}
		s.worked = true
		k.id, s.ids[answer.WatchId] = answer.WatchId, k
		if ws.keys[k.key] != k { // removed meanwhile
			s.cancel(k)
			break
		}
		ws.confirmed(k, answer.Header.Revision)
	case answer.Canceled:
		k := s.ids[answer.WatchId]
		switch {
		case k == nil: // by s.cancel
		case answer.CompactRevision == 0:
			return fmt.Errorf("watch canceled: %s", answer.CancelReason)
		default: // the past that it asked for is not there any more
			delete(s.ids, k.id)
			k.from, k.since = 0, 0
			s.ask(k)
		}
	}
	for _, event := range answer.Events {
		if event.Type == mvccpb.Event_DELETE {
			ws.deleted(string(event.Kv.Key), event.Kv.ModRevision)
		}
	}
	return nil
}

// refused is told by etcd: no watch for k. At first, that may be because the
// authentication of the stream has expired.
func (ws *watches) refused(k *watch, reason string) error {
	err := fmt.Errorf("watch refused: %s", reason)
	if !k.denied {
		k.denied = true
		return err
	}
	ws.tell(k, err, func(*want) bool { return true })
	if ws.keys[k.key] == k {
		ws.remove(k)
	}
	return nil
}
