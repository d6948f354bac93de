package relay

import (
	"bytes"
	"errors"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

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
	whole   bool // the next message is not whole, and must be
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
		*sp.pooled = (*sp.pooled)[:stream.BufferSize]
		stream.PutBuffer(sp.pooled)
		sp.pooled, sp.out = nil, nil
	}
}

// judgeAndUnlock is judge for who has locked mu, and unlocks it. If that panics, the
// machine is left half-way, and nobody is to go by it any more.
func (s *session) judgeAndUnlock(rest []byte) (sp span) {
	defer s.mu.Unlock()
	if s.torn {
		return span{judged: true, err: errPanicked}
	}
	s.torn = true
	sp = s.judge(rest)
	s.torn = false
	return sp
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
		whole := end <= len(rest)
		if sp.whole = !whole && s.mustBeWhole(kind); sp.whole || !whole && !enough(kind, body) {
			break
		}
		prepared := s.machine.Prepared()
		sp.verdict = s.machine.Client(kind, body)
		if sp.verdict.Do != gate.Forward {
			break
		}
		if !whole && sp.verdict.After != gate.Nothing {
			sp.err = errCutShort
			return sp
		}
		s.surround(&sp, rest, end, prepared)
		s.remember(kind, body, sp.verdict)
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
			sp.out = s.own.AppendPrepare(sp.out)
		}
		sp.out = s.affixes.AppendPrefix(sp.out, sp.verdict)
		s.count(sp.verdict)
	}
	if sp.verdict.After != gate.Nothing {
		sp.out = append(sp.out, rest[sp.from:end]...)
		if sp.verdict.Anew {
			sp.out = s.own.AppendPrepare(sp.out)
		}
		sp.out = s.affixes.AppendSuffix(sp.out, sp.verdict)
		sp.from = end
	}
}

// begin copies what goes before a prefix.
func (sp *span) begin(rest []byte) {
	if sp.out == nil {
		sp.pooled = stream.GetBuffer()
		sp.out = (*sp.pooled)[:0]
	}
	sp.out = append(sp.out, rest[sp.from:sp.to]...)
	sp.from = sp.to
}

// errCutShort is a message behind which something is to go before all of it has come.
var errCutShort = errors.New("something is to go behind a message that is not whole")

// mustBeWhole reports whether all of a message must have come before it is judged:
// its text is read, or something may go behind it.
func (s *session) mustBeWhole(kind byte) bool {
	return kind == 'Q' || kind == 'P' || kind == 'F' && s.machine.FollowsCalls()
}

// enough reports whether that much of the body of a message that need not be whole
// is all that the fence looks at.
func enough(kind byte, body []byte) bool {
	switch kind {
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
func (s *session) needed(rest []byte, whole bool) (int, error) {
	n, _ := pgwire.Length(rest)
	switch {
	case !whole:
		return stream.BufferSize, nil
	case n > s.Config.MaxMessage:
		return 0, errStatementTooLong
	}
	return max(stream.BufferSize, pgwire.HeaderSize+n), nil
}

var errStatementTooLong = errors.New("statement is longer than MaxMessage")
