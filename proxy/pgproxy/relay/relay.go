package relay

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/poll"
)

// Keys of log lines.
const (
	keyError     = "error"
	keyCode      = "code"
	keyReason    = "reason"
	keyMark      = "mark"
	keyDetail    = "detail"
	keyResource  = "resource"
	keyNumber    = "number"
	keyTook      = "took"
	keyStatement = "statement"
	keyStack     = "stack"
)

// coresPerLoop: a core relays more than another one's worth of backends can
// answer, and the fewer loops there are, the more each finds to do when it is
// woken.
const coresPerLoop = 2

// Config is what a session goes by. Package pgproxy has checked it, and says of
// its fields what they mean to whoever runs the proxy.
type Config struct {
	// Untokened is what a session without a token may do.
	Untokened gate.Policy
	// ClaimWait is how long a claim waits for the transactions of older tokens,
	// and Evict makes it end their sessions then.
	ClaimWait time.Duration
	Evict     bool
	// IdleInTransaction is how long a session with a token may leave a transaction
	// open and do nothing; 0 is no limit.
	IdleInTransaction time.Duration
	// MaxMessage is the largest statement, in bytes, that is looked at.
	MaxMessage int
	// LogStatements has a refusal logged with the text of what was refused.
	LogStatements bool
	// Cancel has the server cancel what runs in the session that it gave a secret,
	// the body of BackendKeyData, and waits until it has dealt with that. An error
	// says that the server cannot be reached.
	Cancel  func(ctx context.Context, secret []byte) error
	Metrics *Metrics
}

// Metrics are what sessions count. All of them are required.
type Metrics struct {
	// Checks are those sent to the server, of each of Kinds.
	Checks [len(kinds)]prometheus.Counter
	// Refused counts a statement that was refused.
	Refused            func(reason, resource string)
	Claims             *prometheus.CounterVec // result
	ClaimSeconds       prometheus.Observer
	IdleKills          prometheus.Counter
	BytesUp, BytesDown prometheus.Counter // to the server, to the client
}

var kinds = [...]struct { //nolint:gochecknoglobals // never written to
	prefix gate.Prefix
	kind   string
}{
	{gate.Check, "statement"}, {gate.Enter, "enter"}, {gate.Present, "begin"}, {gate.Leave, "commit"},
}

// Kinds are what the checks are called that Metrics.Checks counts.
func Kinds() (names [len(kinds)]string) {
	for i, k := range kinds {
		names[i] = k.kind
	}
	return names
}

// Relay is what the sessions of one server share. Make it with New.
type Relay struct {
	memory memory
	loops  []poll.Loop
	turn   atomic.Uint32 // whose the next session is
}

// New returns a relay without sessions: see Serve.
func New() *Relay {
	return &Relay{loops: make([]poll.Loop, max(1, runtime.GOMAXPROCS(0)/coresPerLoop))}
}

// loop is the loop of the next session.
func (r *Relay) loop() *poll.Loop {
	return &r.loops[int(r.turn.Add(1))%len(r.loops)]
}
