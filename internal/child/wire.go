package child

import (
	"syscall"
	"time"
)

// order is what the warden is told.
type order struct {
	// Limits replace those before. The first order has them: the program does
	// not start without.
	Limits *deadlines `json:"limits,omitempty"`
	// Signal goes to the program's group.
	Signal syscall.Signal `json:"signal,omitempty"`
	// Stop begins the end of the program now.
	Stop bool `json:"stop,omitempty"`
}

// deadlines are Limits as readings of the clock that all processes share.
type deadlines struct {
	Term int64 `json:"term"`
	Kill int64 `json:"kill"`
}

// report is what the warden tells.
type report struct {
	// Started is the program's process id.
	Started int `json:"started,omitempty"`
	// Failed is why it could not be started.
	Failed syscall.Errno `json:"failed,omitempty"`
	// Stopped is the signal that stopped it for the time being.
	Stopped syscall.Signal `json:"stopped,omitempty"`
	// Exited is how it ended.
	Exited *End `json:"exited,omitempty"`
	// Stuck is a descendant that may not be killed.
	Stuck int `json:"stuck,omitempty"`
}

// Limits say when a program has to be over.
type Limits struct {
	// Term is when it is asked to end, with SIGTERM.
	Term time.Time
	// Kill is when it is ended, with SIGKILL.
	Kill time.Time
}

func (l Limits) deadlines() *deadlines {
	// The clock is read first: a pause after that makes the limits earlier.
	now := clock()
	return &deadlines{Term: now + int64(time.Until(l.Term)), Kill: now + int64(time.Until(l.Kill))}
}

func (d *deadlines) limits() Limits {
	now := time.Now() // see Limits.deadlines
	passed := clock()
	return Limits{
		Term: now.Add(time.Duration(d.Term - passed)),
		Kill: now.Add(time.Duration(d.Kill - passed)),
	}
}

// End is how a program ended.
type End struct {
	// Code is its exit code, if no signal ended it.
	Code int `json:"code"`
	// Signal is the signal that ended it, 0 for none.
	Signal syscall.Signal `json:"signal,omitempty"`
	// Stopped says that it was told to end first, by Stop or by its limits.
	Stopped bool `json:"stopped,omitempty"`
}
