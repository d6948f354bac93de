package zkconn

import (
	"fmt"
	"log/slog"
	"time"
)

// hosts tells the client where to connect to. The client would pause for a
// second in front of a server that it has just lost, and resolve names only
// once.
type hosts struct {
	servers []string
	next    int
	failed  int          // connections since the last one that was good
	good    [2]time.Time // when the last two good ones were made, the older one first
}

// Init implements zk.HostProvider.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.servers) }

// Next implements zk.HostProvider. After a round in which no server was any
// good it has the client pause, which is also where the client looks whether it
// was closed; and so it does when good connections end at once, time after time.
func (h *hosts) Next() (server string, pause bool) {
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	pause = h.failed > 0 && h.failed%len(h.servers) == 0 ||
		h.failed == 0 && !h.good[0].IsZero() && time.Since(h.good[0]) < time.Second
	h.failed++
	return server, pause
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.failed = 0
	h.good = [2]time.Time{h.good[1], time.Now()}
}

// logger takes what the client logs.
type logger struct{ *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) {
	l.Debug("ZooKeeper client: " + fmt.Sprintf(format, args...))
}
