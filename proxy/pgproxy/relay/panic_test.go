package relay

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// lines is a log that can be read.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// armed is a counter that panics once it is told to.
type armed struct {
	counted

	mu sync.Mutex
	on bool
}

func (a *armed) arm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on = true
}

func (a *armed) Add(n float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on {
		panic("the reason")
	}
	a.counted.Add(n)
}

func (a *armed) Inc() { a.Add(1) }

// TestPanicEndsOneSession: what panics in a session, wherever, ends that one, with
// both connections, and no other, also of the same loop. It is logged with its
// stack.
func TestPanicEndsOneSession(t *testing.T) {
	t.Parallel()
	insert, long := "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES ("+strings.Repeat("1", 2*stream.BufferSize)+")"
	for name, row := range map[string]struct {
		arms func(m *Metrics, a *armed)
		said string
		pair func(t *testing.T) (proxys, ours net.Conn)
	}{
		"while the loop judges":       {func(m *Metrics, a *armed) { m.Checks[0] = a }, insert, socketPair},
		"while up judges":             {func(m *Metrics, a *armed) { m.Checks[0] = a }, long, socketPair},
		"while the loop relays":       {func(m *Metrics, a *armed) { m.BytesUp = a }, insert, socketPair},
		"while up relays":             {func(m *Metrics, a *armed) { m.BytesUp = a }, long, socketPair},
		"without a loop":              {func(m *Metrics, a *armed) { m.BytesUp = a }, insert, pipe},
		"while the loop relays back":  {func(m *Metrics, a *armed) { m.BytesDown = a }, insert, socketPair},
		"while down relays":           {func(m *Metrics, a *armed) { m.BytesDown = a }, "SELECT big", socketPair},
		"while down sorts":            {func(m *Metrics, a *armed) { m.Refused = func(_, _ string) { a.Inc() } }, insert, socketPair},
		"while down sorts, no a loop": {func(m *Metrics, a *armed) { m.Refused = func(_, _ string) { a.Inc() } }, insert, pipe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRelaying(Config{Untokened: gate.Allow})
			var log lines
			one := s.link()
			config, metrics := *s.config, *s.config.Metrics
			var a armed
			row.arms(&metrics, &a)
			config.Metrics = &metrics
			one.Config, one.Log = &config, slog.New(slog.NewTextHandler(&log, nil))
			others := make([]*relayed, len(s.loops))
			for i := range others {
				others[i] = startAnswered(t, s, s.link(), newStandIn(fencedToken, false), socketPair, atOnce)
			}
			r := startAnswered(t, s, one, newStandIn(fencedToken, strings.HasPrefix(name, "while down sorts")), row.pair, atOnce)
			a.arm()
			_, _ = r.client.Write(encoded(t, &pgproto3.Query{String: row.said}))
			<-r.heard
			<-r.played
			if err := <-r.ended; err != nil {
				t.Errorf("the session ends with %v", err)
			}
			if said := log.String(); strings.Count(said, "session panicked") != 1 || !strings.Contains(said, "the reason") || !strings.Contains(said, "panic_test.go") {
				t.Errorf("the log has %s", said)
			}
			request := encoded(t, &pgproto3.Query{String: insert})
			for _, other := range others {
				atOnce(other.client, request)
				other.wants(t, direct(request, fencedToken))
				other.finish(t, testLimit)
			}
			r.client.Close()
		})
	}
}

func pipe(t *testing.T) (proxys, ours net.Conn) {
	t.Helper()
	return connPair(t, false)
}
