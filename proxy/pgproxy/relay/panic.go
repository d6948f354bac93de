package relay

import (
	"errors"
	"runtime/debug"
)

// A session that panics ends as one whose client has gone: both connections are
// closed, so that nothing is committed which was not, and what runs is cancelled.
// No other session has a part in its state. That what the machine knows may be
// half of what it was about to is what torn is for: neither is anything more sent
// by it, nor the client told that something was done.

// errPanicked ends a session of which some part has panicked.
var errPanicked = errors.New("the session has panicked")

// recovered is the end of a goroutine of the session's: deferred, it makes an error of
// a panic.
func (s *session) recovered(err *error) {
	if v := recover(); v != nil {
		*err = s.panicked(v)
	}
}

// panicked logs a panic, with where it was.
func (s *session) panicked(v any) error {
	s.Log.Error("session panicked", keyError, v, keyStack, string(debug.Stack()))
	return errPanicked
}
