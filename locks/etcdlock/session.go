package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/session"
)

// Why a lease or a session is over before its holder released it.
var (
	errRevoked      = fmt.Errorf("%w: expired or revoked in etcd", locks.ErrLost)
	errDeleted      = fmt.Errorf("%w: its key is gone from etcd", locks.ErrLost)
	errClientClosed = fmt.Errorf("%w: etcd client was closed", session.ErrClosed)
)

// revokeTimeout is how long the end of a session waits for etcd's word.
const revokeTimeout = 2 * time.Second

// etcdSession is an etcd lease that many locks share.
type etcdSession struct {
	*session.Life
	locker *Locker
	id     clientv3.LeaseID
	// left is why the lease could not be revoked; set when Serve has returned.
	left error

	mu    sync.Mutex
	slots int   // how many there are
	free  []int // those that no key is named after
}

// terms are those of a TTL. Lost comes a twentieth of it early, which makes up for
// clocks that run at different rates and for the time that it takes to be noticed.
func terms(ttl time.Duration) session.Terms {
	return session.Terms{TTL: ttl, Sure: ttl - ttl/20, Renew: ttl / 3}
}

// grant asks etcd for a lease.
func (l *Locker) grant() (*etcdSession, error) {
	ctx, cancel := context.WithTimeout(l.ctx, openTimeout)
	defer cancel()
	var granted *pb.LeaseGrantResponse
	var sent time.Time
	err := l.retry(ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		granted, err = l.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(l.config.TTL / time.Second)}, grpc.WaitForReady(true))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open session at %v: %w", l.client.Endpoints(), err)
	}
	t := terms(time.Duration(granted.TTL) * time.Second)
	s := &etcdSession{Life: session.NewLife(t), locker: l, id: clientv3.LeaseID(granted.ID)}
	s.Extend(sent, t)
	return s, nil
}

// Serve implements session.Session.
func (s *etcdSession) Serve() {
	r := renewer{remote: s.locker.leases, id: s.id}
	defer r.close()
	s.Keep(func() error { return s.renew(&r) })
	s.left = s.revoke()
}

// renew renews the session once.
func (s *etcdSession) renew(r *renewer) error {
	sent, t := time.Now(), s.Terms()
	known, err := r.renew(s.Context(), t.TTL/6)
	switch {
	case err != nil:
		s.locker.config.Logger.Debug("renew session", keySession, fmt.Sprintf("%x", s.id), keyError, err)
		return err
	case !known:
		s.End(errRevoked)
		return errRevoked
	}
	s.Extend(sent, t)
	return nil
}

// takeSlot returns the number of a slot: a name for one key of each queue.
func (s *etcdSession) takeSlot() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free) - 1; n >= 0 {
		slot := s.free[n]
		s.free = s.free[:n]
		return slot
	}
	s.slots++
	return s.slots - 1
}

// freeSlot gives back the slot of a place whose key is gone for certain.
func (s *etcdSession) freeSlot(p *place) {
	if p.doubtful {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, p.slot)
}

func (s *etcdSession) revoke() error {
	cause := s.Over()
	level := slog.LevelDebug
	if s.Used() {
		level = slog.LevelWarn
	}
	s.locker.config.Logger.Log(s.Context(), level, "session ended", keySession, fmt.Sprintf("%x", s.id), keyError, cause)
	if errors.Is(cause, errRevoked) || s.locker.client.Ctx().Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.locker.client.Ctx(), revokeTimeout)
	defer cancel()
	err := s.locker.retry(ctx, func(ctx context.Context) error {
		_, err := s.locker.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(s.id)}, grpc.WaitForReady(true))
		return err
	})
	if err == nil || isLeaseNotFound(err) {
		return nil
	}
	return fmt.Errorf("revoke session %x: %w", s.id, err)
}
