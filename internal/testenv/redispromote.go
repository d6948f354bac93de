package testenv

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// promoteLimit is how long a promotion may take: that of a sentinel that believes
// its clock to be wrong takes half a minute longer.
const promoteLimit = 45 * time.Second

// KillPrimary kills the server that leads, so that the other one is promoted, if
// that is a replica in step. Else nothing happens, and it returns false.
func (s *RedisSentinel) KillPrimary(tb testing.TB) bool {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	primary, err := s.Leads(ctx)
	if err != nil || s.sentinel.knowsReplica(ctx) != nil || !s.follows(primary) {
		return false
	}
	primary.Kill(tb)
	s.killed = primary
	return true
}

// follows reports whether the other server is linked to the primary now. What the
// sentinel knows of it may be ten seconds old, and it never promotes a replica that had
// lost its link some seconds before the primary was gone.
func (s *RedisSentinel) follows(primary *RedisServer) bool {
	other := s.Replica
	if primary == s.Replica {
		other = s.Primary
	}
	own, err := other.replication()
	return err == nil && own["master_link_status"] == "up" && net.JoinHostPort(own["master_host"], own["master_port"]) == primary.announced
}

// Rejoin waits until a replica has been promoted in place of the server that
// KillPrimary killed, and starts that one again.
func (s *RedisSentinel) Rejoin(tb testing.TB) {
	tb.Helper()
	err := s.sentinel.proc.until(promoteLimit, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if now, err := s.Leads(ctx); err != nil || now != s.killed {
			return err
		}
		return errors.New("the primary that was killed still leads")
	})
	if err != nil {
		tb.Fatalf("testenv: no replica is promoted: %v", err)
	}
	s.killed.Restart(tb)
}
