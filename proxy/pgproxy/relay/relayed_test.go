package relay

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// testLimit is for what takes no time on a machine that is not overloaded.
const testLimit = 30 * time.Second

// relaying is a relay, and what its sessions go by.
type relaying struct {
	*Relay

	config *Config
}

// newRelaying completes a config of which only some fields matter. There is no
// server that a cancel request would reach.
func newRelaying(c Config) *relaying {
	c.ClaimWait, c.MaxMessage = 10*time.Second, 256<<20
	c.Cancel = func(context.Context, []byte) error { return errors.New("no server") }
	c.Metrics = &Metrics{
		Refused:      func(_, _ string) {},
		Claims:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "claims_total", Help: "By result."}, []string{"result"}),
		ClaimSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "claim_seconds", Help: "Of each."}),
		IdleKills:    counter("idle_kills"),
		BytesUp:      counter("up"),
		BytesDown:    counter("down"),
	}
	for i, kind := range Kinds() {
		c.Metrics.Checks[i] = counter(kind)
	}
	return &relaying{Relay: New(), config: &c}
}

func counter(name string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name + "_total", Help: name})
}

// link is between our ends of a client and of its server.
func (s *relaying) link() *Link {
	return &Link{Database: "d", Config: s.config, Log: slog.New(slog.DiscardHandler)}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !within(testLimit, holds) {
		t.Fatalf("never: %s", what)
	}
}

// within reports whether something becomes true before limit.
func within(limit time.Duration, holds func() bool) bool {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// relayed is one session between a client and a stand-in.
type relayed struct {
	client, server net.Conn // ours
	standIn        *standIn
	ended          chan error
	mu             sync.Mutex
	got            bytes.Buffer
	grew           chan struct{} // has an element when got has grown
	played         chan struct{} // closed when the server has ended
	heard          chan struct{} // closed when the client has read all that came
}

// startRelayed runs a session between a scripted client and the stand-in, whose
// words are garbled by a recipe after the greeting.
func startRelayed(t *testing.T, s *relaying, standIn *standIn, recipe []byte, seed uint64, most int, drain <-chan struct{}) *relayed {
	t.Helper()
	r := &relayed{standIn: standIn, ended: make(chan error, 1), grew: make(chan struct{}, 1), played: make(chan struct{}), heard: make(chan struct{})}
	l := s.link()
	l.Client, r.client = connPair(t, seed%2 == 0)
	l.Server, r.server = connPair(t, seed%2 == 0)
	go func() { r.ended <- s.Serve(context.Background(), l, drain) }()
	go r.listen()
	go r.play(recipe, seed, most)
	return r
}

// listen is the client's reading side, until the proxy hangs up.
func (r *relayed) listen() {
	defer close(r.heard)
	b := make([]byte, 1<<10)
	for {
		n, err := r.client.Read(b)
		r.mu.Lock()
		r.got.Write(b[:n])
		r.mu.Unlock()
		select {
		case r.grew <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// play is the server's side, until the proxy hangs up.
func (r *relayed) play(recipe []byte, seed uint64, most int) {
	defer close(r.played)
	defer r.server.Close()
	answers := make(chan []byte, 1<<16)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer close(answers)
	writer.Go(func() {
		cuts := rand.New(rand.NewPCG(seed, 1))
		for b := range answers {
			writeCut(r.server, b, cuts, most)
		}
	})
	answers <- r.standIn.greeting()
	var rest []byte
	b := make([]byte, 4<<10)
	for {
		n, err := r.server.Read(b)
		if err != nil {
			return
		}
		var broken bool
		rest, broken = frames(append(rest, b[:n]...), func(kind byte, body []byte) bool {
			answer := r.standIn.take(kind, body)
			if len(recipe) >= 3 && len(answer) > 0 && kind == recipe[0]%128 {
				answer, recipe = garble(answer, recipe[:3]), recipe[3:]
			}
			if len(answer) > 0 {
				answers <- answer
			}
			return !r.standIn.over
		})
		if broken {
			return
		}
	}
}

// connPair is a connection of the proxy's and its other end.
func connPair(t *testing.T, socket bool) (proxys, ours net.Conn) {
	t.Helper()
	if !socket {
		return net.Pipe()
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]net.Conn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return conns[0], conns[1]
}

func (r *relayed) received() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.got.Bytes())
}

// await waits until what the client has got is enough, or the session is over.
func (r *relayed) await(limit time.Duration, enough func(got []byte) bool) {
	for over := time.After(limit); ; {
		r.mu.Lock()
		done := enough(r.got.Bytes())
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.grew:
		case <-r.heard:
			return
		case <-over:
			return
		}
	}
}

// finish has the client hang up, the server a moment later, and waits until the
// session is over.
func (r *relayed) finish(t *testing.T, patience time.Duration) {
	t.Helper()
	r.client.Close()
	select {
	case <-r.ended:
		<-r.heard
		<-r.played
		return
	case <-time.After(patience):
		r.server.Close()
	}
	select {
	case <-r.ended:
	case <-time.After(testLimit):
		buf := make([]byte, 1<<20)
		t.Fatalf("the session hangs; the client got %q\n%s", r.received(), buf[:runtime.Stack(buf, true)])
	}
	<-r.heard
	<-r.played
}
