package pgproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
)

// up relays what the client sends.
func (s *session) up(ctx context.Context) error {
	src := s.fromClient
	for {
		err := src.idle(s.stepUp)
		if err == nil {
			err = src.header()
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
			if err = s.toServer.write(flush, false); err == nil {
				err = s.await(ctx, s.machine.Answered)
			}
		case gate.Violation:
			err = refusePacket("unexpected message during COPY from stdin")
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

// span is what judge has made of a part of the client's stream.
type span struct {
	out     []byte // is to be written, if not nil; a buffer of the pool
	pooled  *[]byte
	from    int // else the part of what has been read from here
	to      int // to here
	open    int // bytes of the last message that are still to come
	written int // so much has been, already
	verdict gate.Verdict
	over    bool // the client says goodbye
	err     error
	judged  bool
}

// bytes are what is to be written of a span of rest.
func (sp *span) bytes(rest []byte) []byte {
	if sp.out != nil {
		return sp.out
	}
	return rest[sp.from:sp.to]
}

// undecided reports whether nothing was asked: there is no whole message yet.
func (sp *span) undecided() bool {
	return sp.to == 0 && sp.err == nil && sp.verdict.Do == gate.Forward
}

// release gives the buffer back.
func (sp *span) release() {
	if sp.pooled != nil {
		*sp.pooled = (*sp.pooled)[:bufferSize]
		buffers.Put(sp.pooled)
		sp.pooled, sp.out = nil, nil
	}
}

// stepUp is up on the loop: it relays what has come of the client, and is true,
// if that is whole messages which can be passed on at once. What is left to do
// is in s.span.
func (s *session) stepUp() bool {
	src := s.fromClient
	if some, err := src.now(); !some {
		return err == nil
	}
	if !s.mu.TryLock() {
		return false // who has it may read a statement of any size; all other sessions would wait
	}
	rest := src.rest()
	s.span = s.judge(rest)
	s.mu.Unlock()
	sp := &s.span
	if sp.undecided() {
		s.span = span{} // when more has come it is judged anew
		return false
	}
	if sp.err != nil || sp.verdict.Do != gate.Forward || sp.over || sp.open > 0 || sp.to < len(rest) {
		return false
	}
	var done bool
	sp.written, done = s.toServer.try(sp.bytes(rest))
	s.config.Metrics.bytesUp.Add(float64(sp.written))
	if !done {
		return false
	}
	src.take(sp.to)
	sp.release()
	s.span = span{}
	return src.loop.Drained()
}

// relaySpan relays what has been read of the client, as far as there are whole
// messages, or those that need not be whole, up to the first that must wait for
// what the verdict says. If there is none it reads more.
func (s *session) relaySpan() (gate.Verdict, error) {
	src, sp := s.fromClient, s.span
	if !sp.judged {
		s.mu.Lock()
		sp = s.judge(src.rest())
		s.mu.Unlock()
	}
	s.span = span{}
	if sp.err != nil {
		return sp.verdict, sp.err
	}
	if sp.undecided() {
		most, err := s.needed(src.rest())
		if err == nil {
			err = src.more(most)
		}
		return sp.verdict, err
	}
	b := sp.bytes(src.rest())[sp.written:]
	s.config.Metrics.bytesUp.Add(float64(len(b)))
	err := s.toServer.write(b, sp.open > 0)
	sp.release()
	if err != nil {
		return sp.verdict, fmt.Errorf("write server: %w", err)
	}
	src.take(sp.to)
	if sp.over {
		return sp.verdict, errGoodbye
	}
	return sp.verdict, pass(src, s.toServer, sp.open)
}

// judge asks the fence about each message of what has been read. It is for who
// holds mu.
func (s *session) judge(rest []byte) span {
	sp := span{judged: true}
	if s.over {
		sp.err = errOver
		return sp
	}
	for len(rest)-sp.to >= pgwire.HeaderSize {
		n, ok := pgwire.Length(rest[sp.to:])
		if !ok {
			sp.err = errBadLength
			return sp
		}
		kind, end := rest[sp.to], sp.to+pgwire.HeaderSize+n
		body := rest[sp.to+pgwire.HeaderSize : min(end, len(rest))]
		if end > len(rest) && !enough(kind, body) {
			break
		}
		prepared := s.machine.Prepared()
		sp.verdict = s.machine.Client(kind, body)
		if sp.verdict.Do != gate.Forward {
			break
		}
		s.surround(&sp, rest, end, prepared)
		sp.to = min(end, len(rest))
		sp.open = end - sp.to
		if sp.over = kind == 'X'; sp.over {
			break
		}
	}
	if sp.out != nil {
		sp.out = append(sp.out, rest[sp.from:sp.to]...)
		sp.from = sp.to
	}
	return sp
}

// surround puts around the message that ends at end what the verdict says.
func (s *session) surround(sp *span, rest []byte, end int, prepared bool) {
	if sp.verdict.Before != 0 {
		sp.begin(rest)
		if !prepared {
			sp.out = s.own.appendPrepare(sp.out)
		}
		sp.out = s.affixes.appendPrefix(sp.out, sp.verdict)
		s.count(sp.verdict)
	}
	if sp.verdict.After != gate.Nothing {
		sp.out = append(sp.out, rest[sp.from:end]...)
		sp.out = s.affixes.appendSuffix(sp.out, sp.verdict)
		sp.from = end
	}
}

// begin copies what goes before a prefix.
func (sp *span) begin(rest []byte) {
	if sp.out == nil {
		sp.pooled = buffers.Get().(*[]byte)
		sp.out = (*sp.pooled)[:0]
	}
	sp.out = append(sp.out, rest[sp.from:sp.to]...)
	sp.from = sp.to
}

// enough reports whether that much of the body of a message is all that the
// fence looks at.
func enough(kind byte, body []byte) bool {
	switch kind {
	case 'Q', 'P':
		return false
	case 'B':
		i := bytes.IndexByte(body, 0)
		return i >= 0 && bytes.IndexByte(body[i+1:], 0) >= 0
	case 'F':
		return len(body) >= 4
	case 'E':
		return bytes.IndexByte(body, 0) >= 0
	case 'C':
		return len(body) > 1 && bytes.IndexByte(body[1:], 0) >= 0
	}
	return true
}

// needed is how much of the next message must be there before it can be judged.
// Memory for it is taken as it comes.
func (s *session) needed(rest []byte) (int, error) {
	n, _ := pgwire.Length(rest)
	switch kind := rest[0]; {
	case kind != 'Q' && kind != 'P':
		return bufferSize, nil
	case n > s.config.MaxMessage:
		return 0, errStatementTooLong
	}
	return max(bufferSize, pgwire.HeaderSize+n), nil
}

var errStatementTooLong = errors.New("statement is longer than MaxMessage")

// pass relays the next n bytes, the rest of a message.
func pass(src *source, dst *sink, n int) error {
	for n > 0 {
		if len(src.rest()) == 0 {
			if err := src.more(bufferSize); err != nil {
				return noEOF(err)
			}
		}
		b := src.rest()
		b = b[:min(len(b), n)]
		n -= len(b)
		if err := dst.write(b, n > 0); err != nil {
			return err
		}
		src.take(len(b))
	}
	return nil
}

// await returns when a condition of the machine's holds.
func (s *session) await(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		held, ended := holds(), s.ended
		s.waiting = !held
		s.mu.Unlock()
		switch {
		case held:
			return nil
		case ended:
			return errOver
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errGoodbye is the Terminate of a client.
var errGoodbye = errors.New("client says goodbye")

// goodbye ends a session whose client has sent Terminate. What it had sent before
// is still done and answered, whether it listens or not: it is up to the server
// when the session is over.
func (s *session) goodbye(ctx context.Context) error {
	_, _ = io.Copy(io.Discard, s.client) // until it hangs up, or the server has
	if half, ok := s.server.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // in COPY, the server takes Terminate for a mistake and reads on
	}
	return s.await(ctx, func() bool { return false })
}

// clientGone ends a session whose client cannot be read any more. What it has
// left running at the server is cancelled: nobody waits for it, and it may hold
// up the next holder.
func (s *session) clientGone(ctx context.Context, err error) error {
	s.mu.Lock()
	running, ended := !s.machine.Quiet(), s.ended || s.over
	s.mu.Unlock()
	if running && !ended && s.secret != nil && !isOurs(err) {
		s.cancelRunning(ctx)
	}
	if ended || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errOver
	}
	return err
}

// isOurs reports whether an error is the proxy's own view of a message, and no
// word of the connection.
func isOurs(err error) bool {
	return errors.Is(err, errBadLength) || errors.Is(err, errTooLong) || errors.Is(err, errStatementTooLong)
}
