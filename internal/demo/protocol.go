package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// assignment is what a worker is told, the first line of its standard input.
// It travels there because a URL with a password has no place among the
// arguments or in the environment of a process.
type assignment struct {
	Worker   string        `json:"worker"`
	Postgres string        `json:"postgres"`
	Etcd     string        `json:"etcd"`
	Prefix   string        `json:"prefix"`
	TTL      time.Duration `json:"ttl"`
	Resource string        `json:"resource"`
	Schema   string        `json:"schema"`
	Round    string        `json:"round"`
	Fenced   bool          `json:"fenced"`
	Deposits []int64       `json:"deposits"`
	// Pause makes the worker wait, in the critical section of its first
	// deposit, for a further line of its standard input.
	Pause bool `json:"pause"`
}

// step is what a worker reports, on a line of its standard output each.
type step string

const (
	stepWaiting   step = "waiting"   // asks for the lock
	stepAcquired  step = "acquired"  // has it
	stepClaimed   step = "claimed"   // has raised the mark
	stepCritical  step = "critical"  // has read the balance, has checked its lease, is about to write
	stepLate      step = "late"      // goes on after the pause
	stepCommitted step = "committed" // was told that its write is there
	stepRefused   step = "refused"   // was told that its token is stale
	stepReleased  step = "released"  // gave the lock back
	stepFailed    step = "failed"    // could not go on: Text says why
)

type report struct {
	Step   step          `json:"step"`
	Number int64         `json:"number,omitempty"`
	Token  string        `json:"token,omitempty"`
	Read   int64         `json:"read,omitempty"`
	Amount int64         `json:"amount,omitempty"`
	Wrote  int64         `json:"wrote,omitempty"`
	Lease  time.Duration `json:"lease,omitempty"` // how long it holds for certain
	Text   string        `json:"text,omitempty"`
}

func sendLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("send %T: %w", v, err)
	}
	return nil
}
