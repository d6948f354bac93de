package relay

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// up relays what the client sends.
func (s *session) up(ctx context.Context) (err error) {
	defer s.recovered(&err)
	src := s.fromClient
	for {
		err := src.Idle(s.stepUp)
		if err == nil && !s.span.judged {
			err = src.Header()
		}
		if err != nil {
			return s.clientGone(ctx, err)
		}
		verdict, err := s.relaySpan()
		if errors.Is(err, errGoodbye) {
			return s.goodbye(ctx)
		}
		if err != nil {
			return s.clientGone(ctx, err)
		}
		switch verdict.Do {
		case gate.Forward:
		case gate.Flush:
			if err = s.toServer.Write(flush, false); err == nil {
				err = s.await(ctx, s.machine.Answered)
			}
		case gate.Violation:
			err = refusal.Packet("unexpected message during COPY from stdin")
		case gate.Wait:
			err = s.await(ctx, s.machine.Settled)
		case gate.Resolve:
			if err = s.await(ctx, s.machine.Quiet); err == nil {
				err = s.resolve(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

var flush = []byte{'H', 0, 0, 0, 4} //nolint:gochecknoglobals // never written to

// stepUp is up on the loop: it relays what has come of the client, and is true,
// if that is whole messages which can be passed on at once. What is left to do
// is in s.span.
func (s *session) stepUp() bool {
	defer s.steppedUp()
	src := s.fromClient
	if some, err := src.Now(); !some {
		return err == nil
	}
	if !s.mu.TryLock() {
		return false // who has it may read a statement of any size; all other sessions would wait
	}
	rest := src.Rest()
	s.span = s.judgeAndUnlock(rest)
	sp := &s.span
	if sp.undecided() {
		s.span = span{} // when more has come it is judged anew
		return false
	}
	if sp.err != nil || sp.verdict.Do != gate.Forward || sp.over || sp.open > 0 || sp.to < len(rest) {
		return false
	}
	var done bool
	sp.written, done = s.toServer.Try(sp.bytes(rest))
	s.Config.Metrics.BytesUp.Add(float64(sp.written))
	if !done {
		return false
	}
	src.Take(sp.to)
	sp.release()
	s.span = span{}
	return src.Drained()
}

// steppedUp is the end of a step that panics: up goes on with that.
func (s *session) steppedUp() {
	if v := recover(); v != nil {
		s.span = span{judged: true, err: s.panicked(v)}
	}
}

// relaySpan relays what has been read of the client, as far as there are whole
// messages, or those that need not be whole, up to the first that must wait for
// what the verdict says. If there is none it reads more.
func (s *session) relaySpan() (gate.Verdict, error) {
	src, sp := s.fromClient, s.span
	if !sp.judged {
		s.mu.Lock()
		sp = s.judgeAndUnlock(src.Rest())
	}
	s.span = span{}
	if sp.err != nil {
		return sp.verdict, sp.err
	}
	if sp.undecided() {
		most, err := s.needed(src.Rest(), sp.whole)
		if err == nil {
			err = src.More(most)
		}
		return sp.verdict, err
	}
	b := sp.bytes(src.Rest())[sp.written:]
	s.Config.Metrics.BytesUp.Add(float64(len(b)))
	err := s.toServer.Write(b, sp.open > 0)
	sp.release()
	if err != nil {
		return sp.verdict, fmt.Errorf("write server: %w", err)
	}
	src.Take(sp.to)
	if sp.over {
		return sp.verdict, errGoodbye
	}
	return sp.verdict, stream.Pass(src, s.toServer, sp.open)
}

// errGoodbye is the Terminate of a client.
var errGoodbye = errors.New("client says goodbye")

// goodbye ends a session whose client has sent Terminate. What it had sent before
// is still done and answered, whether it listens or not: it is up to the server
// when the session is over.
func (s *session) goodbye(ctx context.Context) error {
	_, _ = io.Copy(io.Discard, s.Client) // until it hangs up, or the server has
	s.closeWrite()                       // in COPY, the server takes Terminate for a mistake and reads on
	return s.awaitEnd(ctx)
}
