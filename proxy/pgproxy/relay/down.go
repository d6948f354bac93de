package relay

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// down relays what the server sends. If the client takes no more it goes on, so
// that what up waits for comes: it is up that ends the session.
func (s *session) down() (err error) {
	defer func() {
		s.mu.Lock()
		s.ended = true
		s.mu.Unlock()
	}()
	defer s.recovered(&err)
	src := s.fromServer
	for {
		err := src.Idle(s.stepDown)
		if err == nil && !s.replies.sorted {
			err = src.Header()
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errOver
			}
			return fmt.Errorf("read server: %w", err)
		}
		if err := s.relayReplies(); err != nil {
			return err
		}
	}
}

// replies is what relayReplies has made of a part of the server's stream.
type replies struct {
	from, to int // what is to be relayed, moved together
	used     int // how much has been looked at
	open     int // bytes of the last message that are still to come
	drop     bool
	then     gate.Then
	settled  bool   // nothing more is under way
	insert   []byte // goes behind
	written  int    // so much has been, already
	err      error
	sorted   bool
}

// stepDown is down on the loop: it relays what has come of the server, and is
// true if that is whole messages which can be passed on at once, and after which
// nothing is to be done. What is left to do is in s.replies.
func (s *session) stepDown() bool {
	defer s.steppedDown()
	src := s.fromServer
	if some, err := src.Now(); !some {
		return err == nil
	}
	if !s.mu.TryLock() {
		return false // who has it may take its time
	}
	rest := src.Rest()
	s.replies = s.sortAndUnlock(rest, true)
	r := &s.replies
	if r.used == 0 && r.insert == nil && r.err == nil {
		r.sorted = false // nothing was done yet
		return false
	}
	if r.err != nil || r.then != gate.None || r.insert != nil || r.open > 0 || r.used < len(rest) {
		return false
	}
	if r.from < r.to {
		var done bool
		r.written, done = s.toClient.Try(rest[r.from:r.to])
		s.Config.Metrics.BytesDown.Add(float64(r.written))
		if !done {
			return false
		}
	}
	if r.settled {
		if !s.mu.TryLock() {
			return false
		}
		draining := s.told()
		s.mu.Unlock()
		if draining {
			return false
		}
	}
	src.Take(r.used)
	s.replies = replies{}
	return src.Drained()
}

// steppedDown is the end of a step that panics: down goes on with that.
func (s *session) steppedDown() {
	if v := recover(); v != nil {
		s.replies = replies{sorted: true, err: s.panicked(v)}
	}
}

// relayReplies relays what has been read of the server, up to the first message
// after which something is to be done. If there is none it reads more.
func (s *session) relayReplies() error {
	src, r := s.fromServer, s.replies
	rest := src.Rest()
	if !r.sorted {
		s.mu.Lock()
		r = s.sortAndUnlock(rest, false)
	}
	s.replies = replies{}
	if r.err != nil {
		return r.err
	}
	if r.used == 0 && r.insert == nil {
		n, _ := pgwire.Length(rest)
		return src.More(pgwire.HeaderSize + min(n, maxReply))
	}
	if err := s.follow(r.then); err != nil {
		return err
	}
	b := rest[r.from:r.to][r.written:]
	s.Config.Metrics.BytesDown.Add(float64(len(b)))
	if len(b) > 0 || len(r.insert) > 0 {
		if err := s.toClient.Write(append(b[:len(b):len(b)], r.insert...), r.open > 0 && !r.drop); err != nil {
			return fmt.Errorf("write client: %w", err)
		}
	}
	src.Take(r.used)
	if r.settled {
		s.mu.Lock()
		draining := s.told()
		s.mu.Unlock()
		if draining {
			s.endIfIdle()
		}
	}
	if r.drop {
		return src.Skip(r.open)
	}
	return stream.Pass(src, s.toClient, r.open)
}

// sortAndUnlock is sort for who has locked mu, and unlocks it. If that panics, the
// machine is left half-way, and nobody is to go by it any more.
func (s *session) sortAndUnlock(rest []byte, onLoop bool) (r replies) {
	defer s.mu.Unlock()
	if s.torn {
		return replies{sorted: true, err: errPanicked}
	}
	s.torn = true
	r = s.sort(rest, onLoop)
	s.torn = false
	return r
}

// sort asks the fence about each message of what has been read; on the loop, not
// about an error: to report it takes its time. It is for who holds mu.
func (s *session) sort(rest []byte, onLoop bool) replies {
	r := replies{sorted: true}
	for r.then == gate.None && r.insert == nil && len(rest)-r.used >= pgwire.HeaderSize {
		n, ok := pgwire.Length(rest[r.used:])
		if !ok {
			r.err = errBadLength
			return r
		}
		kind, end := rest[r.used], r.used+pgwire.HeaderSize+n
		if end > len(rest) && s.whole(kind, n) || onLoop && kind == 'E' {
			break
		}
		if s.kept != nil && isReply(kind) && s.machine.Wrapped() {
			r.insert, s.kept = s.kept, nil // another statement of the Query goes on
			break
		}
		got := min(end, len(rest))
		if kind == 'N' && s.exchange != nil {
			s.exchange.hear(rest[r.used+pgwire.HeaderSize : got])
		}
		answer := s.machine.Server(kind, rest[r.used+pgwire.HeaderSize:got])
		s.carry(&r, rest, got, answer)
		r.used, r.open = got, end-got
		r.drop = answer.Do != gate.Relay
	}
	if r.settled = s.machine.Settled(); r.settled {
		s.telling = true
		if s.machine.InBlock() {
			s.idleFrom = time.Now()
		}
	}
	if s.waiting {
		s.nudge()
	}
	return r
}

// told says that the client has been sent all that came, and reports whether the
// session is to be drained. It is for who holds mu.
func (s *session) told() bool {
	s.telling = false
	return s.draining
}

// isReply reports whether a message is the reply to a statement.
func isReply(kind byte) bool {
	switch kind {
	case 'Z', 'A', 'N', 'S':
		return false
	}
	return true
}

// carry puts a message, which ends at got, where it is relayed from.
func (s *session) carry(r *replies, rest []byte, got int, answer gate.Answer) {
	message := rest[r.used:got]
	r.then = answer.Then
	switch answer.Do {
	case gate.Relay:
		if r.from == r.to {
			r.from, r.to = r.used, r.used // nothing before it: no need to move it
		}
		r.to += copy(rest[r.to:], message)
	case gate.Drop:
	case gate.Strip, gate.Explain:
		said := s.reworded(message[pgwire.HeaderSize:], answer)
		if len(said) > len(message) {
			r.insert = said
			break
		}
		if r.from == r.to {
			r.from, r.to = r.used, r.used
		}
		r.to += copy(rest[r.to:], said)
	case gate.Keep:
		s.kept = append(s.kept[:0], message...)
	case gate.Collect:
		s.exchange.add(message)
	}
	switch answer.Then {
	case gate.Release:
		r.insert, s.kept = s.kept, nil
	case gate.Discard:
		s.kept = nil
	case gate.None, gate.Sync, gate.Rollback, gate.SyncRollback, gate.Broken:
	}
}

// whole reports whether a message must have come as a whole before it is looked
// at.
func (s *session) whole(kind byte, n int) bool {
	switch kind {
	case 'Z', 'C', 'E', 'S':
		return n <= maxReply
	}
	return s.exchange != nil
}

// follow does what is to be done after a message of the server's.
func (s *session) follow(then gate.Then) error {
	var b []byte
	switch then {
	case gate.Sync:
		b = pgwire.AppendSync(nil)
	case gate.Rollback:
		b = s.own.AppendRollback(nil)
	case gate.SyncRollback:
		b = s.own.AppendRollback(pgwire.AppendSync(nil))
	case gate.Broken:
		return errNotUnderstood
	case gate.None, gate.Release, gate.Discard:
		return nil
	}
	return s.toServer.Insert(b)
}

// errNotUnderstood ends a session of which the proxy has lost track: what it
// cannot follow it cannot fence.
var errNotUnderstood = errors.New("the server's replies do not match what was sent")
