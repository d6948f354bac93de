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
)

// Why a lease or a session is over before its holder released it.
var (
	errExpired      = fmt.Errorf("%w: not renewed by its deadline", locks.ErrLost)
	errRevoked      = fmt.Errorf("%w: expired or revoked in etcd", locks.ErrLost)
	errDeleted      = fmt.Errorf("%w: its key is gone from etcd", locks.ErrLost)
	errIdle         = fmt.Errorf("%w: session was idle", locks.ErrLost)
	errLockerClosed = fmt.Errorf("%w: %w", locks.ErrLost, locks.ErrClosed)
	errClientClosed = fmt.Errorf("%w: %w: etcd client was closed", locks.ErrLost, locks.ErrClosed)
)

// revokeTimeout is how long the end of a session waits for etcd's word.
const revokeTimeout = 2 * time.Second

// session is an etcd lease that many locks share, and the local clock that
// tells when it is over.
type session struct {
	locker *Locker
	id     clientv3.LeaseID
	ttl    time.Duration
	// ctx ends with the session, with a cause that matches locks.ErrLost.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wake tells keep that the session may be finished.
	wake chan struct{}
	// left is why the lease could not be revoked; set when keep has returned.
	left error

	mu        sync.Mutex
	sent      time.Time // when the last renewal that was answered was sent
	deadline  time.Time
	timer     *time.Timer // fires at deadline
	users     int
	idleSince time.Time
	retired   bool  // takes no more users
	slots     int   // how many there are
	free      []int // those that no key is named after
}

func newSession(l *Locker, id clientv3.LeaseID, sent time.Time, ttl time.Duration) *session {
	s := &session{locker: l, id: id, ttl: ttl, wake: make(chan struct{}, 1), idleSince: time.Now()}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(ttl, s.expireIfDue)
	s.extend(sent)
	return s
}

// extend moves the deadline after an answer to a renewal sent at the given
// time. The clock is the monotonic one, and it was read before the request
// left, so that etcd's clock for the lease can only have started later; the
// twentieth part makes up for clocks that run at different rates and for the
// time that Lost takes to be noticed. Callers hold mu.
func (s *session) extend(sent time.Time) {
	s.sent = sent
	s.deadline = sent.Add(s.ttl - s.ttl/20)
	s.timer.Reset(time.Until(s.deadline))
}

// renewed reports the answer to a renewal sent at the given time. An answer
// that came too late does not bring the session back: its locks were reported
// lost.
func (s *session) renewed(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.extend(sent)
	}
}

// expireIfDue ends the session if its deadline has passed. It runs by timer,
// and whenever somebody asks: after a pause of the process the timer may be
// late.
func (s *session) expireIfDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.deadline) {
		s.endLocked(errExpired)
	}
}

// end ends the session, and with it every lease, in this process. keep then
// revokes it in etcd.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause)
}

func (s *session) endLocked(cause error) {
	s.retired = true
	s.timer.Stop()
	s.cancel(cause)
}

func (s *session) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false
	}
	s.users++
	return true
}

func (s *session) leave() {
	s.mu.Lock()
	s.users--
	s.idleSince = time.Now()
	last := s.users == 0 && s.retired
	s.mu.Unlock()
	if last {
		s.prod()
	}
}

// takeSlot returns the number of a slot: a name for one key of each queue.
func (s *session) takeSlot() int {
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
func (s *session) freeSlot(p *place) {
	if p.doubtful {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, p.slot)
}

// retire takes the session out of use: it ends when its last user leaves.
func (s *session) retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.prod()
}

func (s *session) prod() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// finish retires the session if nobody uses it any more, and reports whether
// it may end.
func (s *session) finish() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 && time.Since(s.idleSince) >= s.ttl {
		s.retired = true
	}
	return s.retired && s.users == 0
}

func (s *session) inUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users != 0
}

func (s *session) nextRenewal() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.Add(s.ttl / 3)
}

func (s *session) until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

// keep renews the session until it ends, then revokes it.
func (s *session) keep() {
	r := renewer{remote: s.locker.leases, id: s.id}
	defer r.close()
	pause := time.NewTimer(time.Until(s.nextRenewal()))
	defer pause.Stop()
	for {
		select {
		case <-s.ctx.Done():
		case <-s.wake:
		case <-pause.C:
		}
		if s.finish() {
			s.end(errIdle)
		}
		if s.ctx.Err() != nil {
			s.left = s.revoke()
			return
		}
		wait := time.Until(s.nextRenewal())
		if wait <= 0 {
			wait = s.renew(&r)
		}
		pause.Reset(wait)
	}
}

// renew renews the session once and returns the time to wait before the next
// renewal.
func (s *session) renew(r *renewer) time.Duration {
	sent := time.Now()
	known, err := r.renew(s.ctx, s.ttl/6)
	switch {
	case err != nil:
		// Only the deadline makes a session lost that etcd may still have.
		s.locker.config.Logger.Debug("renew session", keySession, fmt.Sprintf("%x", s.id), keyError, err)
		return min(max(s.ttl/30, 10*time.Millisecond), time.Second)
	case !known:
		s.end(errRevoked)
		return 0
	}
	s.renewed(sent)
	return time.Until(s.nextRenewal())
}

func (s *session) revoke() error {
	cause := context.Cause(s.ctx)
	level := slog.LevelDebug
	if s.inUse() {
		level = slog.LevelWarn
	}
	s.locker.config.Logger.Log(s.ctx, level, "session ended", keySession, fmt.Sprintf("%x", s.id), keyError, cause)
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
