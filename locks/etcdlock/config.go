package etcdlock

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// The keys of log lines.
const (
	keyResource = "resource"
	keyHolder   = "holder"
	keySession  = "session"
	keyError    = "error"
)

const (
	defaultTTL    = 15 * time.Second
	defaultPrefix = "fence/locks/"
	minTTL        = time.Second
)

// Config says how a Locker uses etcd. The zero Config is usable.
type Config struct {
	// TTL is how long a lock outlives the last sign of life of its process, in
	// whole seconds: a part of a second counts as one. At least 1 s; etcd
	// raises what is below 1.5 election timeouts (2 s by default). Lost fires
	// after 19/20 of it without an answer. Defaults to 15 s.
	TTL time.Duration
	// Prefix is where all the keys are. Lockers see each other's locks if their
	// Prefix is the same; a "/" is appended where it does not end in one.
	// Defaults to "fence/locks/".
	Prefix string
	// IssuerKey is the key of the issuer's id, which is created when it is
	// missing. Several prefixes of one etcd may share it, since their numbers
	// come from one counter. Defaults to Prefix + ".issuer".
	IssuerKey string
	// Logger gets a line for every lease that is lost and for every key that
	// could not be removed at once. Defaults to none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.TTL < minTTL {
		return c, fmt.Errorf("etcdlock: TTL %v is below %v", c.TTL, minTTL)
	}
	c.TTL = (c.TTL + time.Second - 1).Truncate(time.Second)
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	if c.IssuerKey == "" {
		c.IssuerKey = c.Prefix + ".issuer"
	}
	if below, ok := strings.CutPrefix(c.IssuerKey, c.Prefix); ok && strings.Contains(below, "/") {
		return c, errors.New("etcdlock: IssuerKey lies among the keys of the locks")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
