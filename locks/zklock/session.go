package zklock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks"
)

// Why a lease or a session is over before its holder released it.
var (
	errExpired      = fmt.Errorf("%w: no sign of life from ZooKeeper by its deadline", locks.ErrLost)
	errRevoked      = fmt.Errorf("%w: its session has expired in ZooKeeper", locks.ErrLost)
	errDeleted      = fmt.Errorf("%w: its node is gone from ZooKeeper", locks.ErrLost)
	errIdle         = fmt.Errorf("%w: session was idle", locks.ErrLost)
	errLockerClosed = fmt.Errorf("%w: %w", locks.ErrLost, locks.ErrClosed)
)

// session is a session of ZooKeeper that many locks share, and the local clock
// that tells when it is over.
type session struct {
	locker *Locker
	conn   *zk.Conn
	events <-chan zk.Event // closed when conn has ended
	id     int64           // these are set when opened is closed
	born   time.Time
	opened chan struct{}
	// ctx ends with the session, with a cause that matches locks.ErrLost.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wake tells keep that the session may be finished.
	wake chan struct{}

	mu        sync.Mutex
	calls     sync.WaitGroup // none is added when ctx has ended
	wire      *wire          // the newest connection
	ttl       time.Duration  // what the server granted, until then what is asked for
	sent      time.Time      // when the last request was sent that shows that the leader keeps the session
	deadline  time.Time
	timer     *time.Timer // fires at deadline
	users     int
	idleSince time.Time
	retired   bool // takes no more users
	closed    bool // the server said so
	watches   map[string][]*watch
	issuer    issuer
	armed     map[string]int // by path, how many watches the client may have
}

func newSession(l *Locker) *session {
	s := &session{
		locker: l, ttl: l.config.TTL, idleSince: time.Now(),
		opened: make(chan struct{}), wake: make(chan struct{}, 1), watches: map[string][]*watch{},
		armed: map[string]int{},
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// name is how ZooKeeper's tools write the session's id.
func (s *session) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("0x%x", uint64(s.id)) //nolint:gosec // an id
}

// greeted takes a server's answer to a connection: which session it belongs to,
// and when the session ends that nobody hears of.
func (s *session) greeted(id int64, ttl time.Duration, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.opened:
		if id != s.id { // 0, or the next one that the client opens by itself
			s.endLocked(errRevoked)
			return
		}
	default:
		if id == 0 {
			return // what the client asked for is gone; it asks again
		}
		s.id, s.born = id, time.Now()
		close(s.opened)
	}
	s.ttl = ttl
	s.issuer.renewed()
	s.extend(sent)
}

// answered takes the answer to a request. Only what the leader has seen counts:
// a member that is cut off from it still answers pings and reads, for seconds
// (syncLimit), while the leader lets the session expire.
func (s *session) answered(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.op {
	case opClose:
		s.closed = true
	case opCreate, opDelete, opSetData, opSync, opMulti, opCreateContainer:
		s.extend(r.sent)
	}
}

// extend moves the deadline after an answer to a request sent at the given
// time. The clock is the monotonic one, and it was read before the request
// left. The third that is left makes up for the half tick after which a member
// tells the leader whom it has heard, for clocks that run at different rates,
// and for the time that Lost takes to be noticed. An answer that came too late
// does not bring the session back: its locks were reported lost. Callers hold mu.
func (s *session) extend(sent time.Time) {
	if s.ctx.Err() != nil || sent.Before(s.sent) {
		return
	}
	s.sent = sent
	s.deadline = sent.Add(s.ttl * 2 / 3)
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(s.deadline), s.expireIfDue)
	} else {
		s.timer.Reset(time.Until(s.deadline))
	}
}

// hangLimit is how long a server may leave a request without an answer. With a
// request each quarter of the TTL it leaves a quarter to find another server.
func (s *session) hangLimit() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl / 6
}

// expireIfDue ends the session if its deadline has passed. It runs by timer,
// and whenever somebody asks: after a pause of the process the timer may be
// late.
func (s *session) expireIfDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.deadline.IsZero() && !time.Now().Before(s.deadline) {
		s.endLocked(errExpired)
	}
}

// end ends the session, and with it every lease, in this process. keep then
// closes it in ZooKeeper.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause)
}

func (s *session) endLocked(cause error) {
	s.retired = true
	if s.timer != nil {
		s.timer.Stop()
	}
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

func (s *session) until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

func (s *session) nextBeat() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.Add(s.ttl / 4)
}

// keep keeps the session alive until it ends, then closes it.
func (s *session) keep() {
	pause := time.NewTimer(time.Until(s.nextBeat()))
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
			s.close()
			return
		}
		wait := time.Until(s.nextBeat())
		if wait <= 0 {
			wait = s.beat()
		}
		pause.Reset(wait)
	}
}

// beat asks the leader for a sign of life, through whichever server it is, and
// returns the time to wait before the next one. The client's own pings reach
// only the server.
func (s *session) beat() time.Duration {
	_, err := ask(s.ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(s.locker.config.Root) })
	if err != nil {
		s.locker.config.Logger.Debug("keep session", keySession, s.name(), keyError, err)
		return min(max(s.locker.config.TTL/30, 10*time.Millisecond), time.Second)
	}
	return time.Until(s.nextBeat())
}

// close closes the session in ZooKeeper, which removes its nodes, or gives up
// on that after some seconds, and returns when nothing of it runs any more.
func (s *session) close() {
	s.mu.Lock()
	level := slog.LevelDebug
	if s.users > 0 {
		level = slog.LevelWarn
	}
	s.mu.Unlock()
	cause := context.Cause(s.ctx)
	s.locker.config.Logger.Log(s.ctx, level, "session ended", keySession, s.name(), keyError, cause)
	s.conn.Close()
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.Close()
	}
	for range s.events { // until the client has ended
	}
	s.calls.Wait()
}

// left is nil if the session is over in ZooKeeper too, after close.
func (s *session) left() error {
	name := s.name()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || errors.Is(context.Cause(s.ctx), errRevoked) {
		return nil
	}
	return fmt.Errorf("close session %s: no answer from ZooKeeper, which ends it after %v", name, s.ttl)
}
