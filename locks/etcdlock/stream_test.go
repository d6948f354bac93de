package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

const fakeTTL = 15 * time.Second

// fakeEtcd is the watches of an etcd with one client.
type fakeEtcd struct {
	mu      sync.Mutex
	rev     int64
	streams int
	asked   []string // what it was asked for, in order
	lastID  int64
	ids     map[string]int64
	refuse  map[string]bool
	mute    bool
	send    chan *pb.WatchResponse
}

// fakeStream is one stream; a new one forgets all the watches.
type fakeStream struct {
	grpc.ClientStream
	etcd *fakeEtcd
	ctx  context.Context
	send chan *pb.WatchResponse
}

// newFake returns the watches of a Locker, and what they watch.
func newFake(t *testing.T) (*fakeEtcd, *watches) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	etcd := &fakeEtcd{rev: 10, refuse: map[string]bool{}}
	return etcd, &watches{
		remote: etcd, ttl: fakeTTL, logger: slog.New(slog.DiscardHandler), ctx: ctx,
		run: func(f func()) { work.Go(f) }, keys: map[string]*watch{},
	}
}

func (e *fakeEtcd) Watch(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse], error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.streams++
	e.ids, e.send = map[string]int64{}, make(chan *pb.WatchResponse, 100)
	return &fakeStream{etcd: e, ctx: ctx, send: e.send}, nil
}

func (s *fakeStream) Recv() (*pb.WatchResponse, error) {
	select {
	case answer, open := <-s.send:
		if !open {
			return nil, io.EOF
		}
		return answer, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *fakeStream) Send(request *pb.WatchRequest) error {
	e := s.etcd
	e.mu.Lock()
	defer e.mu.Unlock()
	answer := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: e.rev}, WatchId: -1}
	switch r := request.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		key := string(r.CreateRequest.Key)
		e.asked = append(e.asked, fmt.Sprint("watch ", key, " from ", r.CreateRequest.StartRevision))
		answer.Created, answer.Canceled = true, e.refuse[key]
		if !answer.Canceled {
			e.lastID++
			answer.WatchId = e.lastID
			e.ids[key] = answer.WatchId
		}
	case *pb.WatchRequest_CancelRequest:
		for key, id := range e.ids {
			if id == r.CancelRequest.WatchId {
				e.asked = append(e.asked, "cancel "+key)
				delete(e.ids, key)
			}
		}
		answer.Canceled, answer.WatchId = true, r.CancelRequest.WatchId
	}
	if !e.mute {
		s.send <- answer
	}
	return nil
}

func (e *fakeEtcd) delete(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rev++
	if id, ok := e.ids[key]; ok && !e.mute {
		e.send <- &pb.WatchResponse{
			Header: &pb.ResponseHeader{Revision: e.rev}, WatchId: id,
			Events: []*mvccpb.Event{{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: e.rev}}},
		}
	}
}

// did checks what etcd was asked for since the last time.
func (e *fakeEtcd) did(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if got := fmt.Sprint(e.asked); got != fmt.Sprint(want) {
		t.Errorf("etcd was asked for %s, want %s", got, want)
	}
	e.asked = nil
}

// now is etcd's revision.
func (e *fakeEtcd) now() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rev
}

// wants is a want, and what it was told.
func (ws *watches) wants(w want) (*want, <-chan error) {
	told := make(chan error, 1)
	w.tell = func(err error) { told <- err }
	ws.want(&w)
	return &w, told
}

// told checks what a want was told; "nothing" is that it was not.
func told(t *testing.T, got <-chan error, want string) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-got:
		if fmt.Sprint(err) != want {
			t.Errorf("told %v, want %s", err, want)
		}
	default:
		if want != "nothing" {
			t.Errorf("told nothing, want %s", want)
		}
	}
}

// TestWatchIsReused: who waits behind the same key again finds its watch, which
// has missed nothing; one that nobody wants is canceled before long.
func TestWatchIsReused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		etcd, ws := newFake(t)
		_, got := ws.wants(want{key: "a", after: etcd.now()})
		etcd.did(t, "watch a from 0")
		told(t, got, "nothing")
		for range 3 {
			etcd.delete("a")
			told(t, got, "<nil>")
			_, got = ws.wants(want{key: "a", after: etcd.now()})
		}
		etcd.did(t)
		// A deletion that came before it was wanted counts as well.
		before := etcd.now()
		etcd.delete("a")
		told(t, got, "<nil>")
		_, got = ws.wants(want{key: "a", after: before})
		told(t, got, "<nil>")
		etcd.delete("a")
		etcd.did(t)
		etcd.delete("a")
		etcd.did(t, "cancel a")
		// So does one before the watch.
		etcd.delete("b")
		_, got = ws.wants(want{key: "b", after: before})
		told(t, got, errMissed.Error())
		_, got = ws.wants(want{key: "b", after: before})
		told(t, got, errMissed.Error())
		etcd.did(t, "watch b from 0")
		_, got = ws.wants(want{key: "c", after: before, past: true})
		etcd.did(t, fmt.Sprint("watch c from ", before))
		<-time.After(fakeTTL)
		etcd.did(t, "cancel b")
		etcd.delete("c")
		told(t, got, "<nil>")
		// Without watches there is no stream.
		<-time.After(fakeTTL)
		synctest.Wait()
		if ws.running || ws.spare != 0 || len(ws.keys) != 0 {
			t.Errorf("left behind: %v", ws.keys)
		}
	})
}

// TestStreamBreaks: after a break all are told to look, the patient when they
// are watched again.
func TestStreamBreaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		etcd, ws := newFake(t)
		_, waiter := ws.wants(want{key: "a", after: etcd.now()})
		own, lease := ws.wants(want{key: "b", after: etcd.now(), past: true, patient: true})
		told(t, lease, "nothing")
		etcd.mu.Lock()
		etcd.asked, etcd.rev = nil, etcd.rev+1
		close(etcd.send)
		etcd.mu.Unlock()
		told(t, waiter, io.EOF.Error())
		told(t, lease, "nothing")
		<-time.After(time.Second)
		told(t, lease, errMissed.Error())
		etcd.did(t, "watch b from 0")
		own.after = etcd.now()
		ws.want(own)
		told(t, lease, "nothing")
		etcd.delete("b")
		told(t, lease, "<nil>")
		etcd.did(t)
		ws.drop(own)
		ws.want(own)
		etcd.delete("b")
		told(t, lease, "nothing")
	})
}

// TestStreamHangs: a stream that answers is kept, one that does not is replaced
// within a TTL.
func TestStreamHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		etcd, ws := newFake(t)
		_, got := ws.wants(want{key: "a", after: etcd.now()})
		<-time.After(10 * fakeTTL)
		told(t, got, "nothing")
		etcd.did(t, "watch a from 0")
		etcd.mu.Lock()
		etcd.mute = true
		etcd.mu.Unlock()
		<-time.After(fakeTTL)
		told(t, got, errWatchQuiet.Error())
		if err := ws.await(t.Context(), "a", etcd.now()); !errors.Is(err, errWatchQuiet) && !errors.Is(err, errMissed) {
			t.Errorf("await on a stream that hangs: %v", err)
		}
	})
}

// TestWatchIsRefused: an authentication that has expired costs the stream, and a
// permission that is not there only the one watch.
func TestWatchIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		etcd, ws := newFake(t)
		_, good := ws.wants(want{key: "a", after: etcd.now(), patient: true})
		told(t, good, "nothing")
		etcd.refuse["b"] = true
		_, bad := ws.wants(want{key: "b", after: etcd.now(), patient: true})
		<-time.After(time.Minute)
		told(t, bad, "watch refused: ")
		told(t, good, "nothing")
		if etcd.streams != 2 {
			t.Errorf("%d streams, want another one, once", etcd.streams)
		}
		etcd.delete("a")
		told(t, good, "<nil>")
	})
}
