package redislock

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// The keys of log lines.
const (
	keyResource = "resource"
	keyHolder   = "holder"
	keyError    = "error"
)

const (
	defaultTTL            = 15 * time.Second
	defaultPrefix         = "fence:locks:"
	defaultFallbackPoll   = time.Second
	defaultReplicaTimeout = time.Second
	minTTL                = 500 * time.Millisecond
	minFallbackPoll       = 10 * time.Millisecond
)

// Config says how a Locker uses Redis. Issuer is required; the zero value of
// every other field is its default.
type Config struct {
	// Issuer names the counter that the numbers come from: it is in every
	// token, and a resource refuses the tokens of any other issuer. It is
	// configured and not kept in Redis, since the numbers survive lost data.
	// Two Redis whose numbers must not be mixed up need two names. 1 to 64 of
	// [A-Za-z0-9_-].
	Issuer string
	// TTL is how long a lock, or a place in the queue, outlives the last sign
	// of life of its process, by the clock of Redis. At least 500 ms. Lost fires
	// after 19/20 of it without an answer, by the local clock. Defaults to 15 s.
	TTL time.Duration
	// Prefix begins the names of all keys and channels. Lockers see each
	// other's locks if their Prefix is the same. It must not contain braces,
	// which would move the keys of a lock to different slots of a cluster.
	// Defaults to "fence:locks:".
	Prefix string
	// FallbackPoll is how often, at most, a waiter asks for its lock although
	// nobody has woken it: messages of Redis may be lost. 10 ms to TTL/3.
	// Defaults to 1 s, or TTL/3 if that is less.
	FallbackPoll time.Duration
	// Floor is what every number of this Locker is above, like that of
	// AcquireAbove. Defaults to 0.
	Floor int64
	// Replicas is how many replicas must have acknowledged a grant (WAIT)
	// before it is returned, which costs another round trip; a grant that has
	// not reached them within ReplicaTimeout is undone, and the acquisition
	// returns ErrNotReplicated. It makes it less likely that a failover gives
	// the lock to somebody else, and does not rule it out. Defaults to 0.
	Replicas int
	// ReplicaTimeout is how long to wait for Replicas. Defaults to 1 s.
	ReplicaTimeout time.Duration
	// SkipPolicyCheck uses a Redis whose maxmemory-policy cannot be read (INFO
	// is not permitted, or not known there) or may evict locks.
	SkipPolicyCheck bool
	// Logger gets a line for every lease that is lost and for every lock that
	// could not be released at once. Defaults to none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Issuer == "" {
		return c, errors.New("redislock: Issuer is missing")
	}
	if err := guard.ValidateID(c.Issuer); err != nil {
		return c, fmt.Errorf("redislock: Issuer %q: %w", c.Issuer, err)
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.TTL < minTTL {
		return c, fmt.Errorf("redislock: TTL %v is below %v", c.TTL, minTTL)
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		return c, fmt.Errorf("redislock: Prefix %q has braces", c.Prefix)
	}
	if c.FallbackPoll == 0 {
		c.FallbackPoll = min(defaultFallbackPoll, c.TTL/3)
	}
	if c.FallbackPoll < minFallbackPoll || c.FallbackPoll > c.TTL/3 {
		return c, fmt.Errorf("redislock: FallbackPoll %v is not between %v and TTL/3", c.FallbackPoll, minFallbackPoll)
	}
	if err := validFloor(c.Floor); err != nil {
		return c, fmt.Errorf("redislock: %w", err)
	}
	if c.Replicas < 0 || c.ReplicaTimeout < 0 {
		return c, errors.New("redislock: Replicas or ReplicaTimeout is below 0")
	}
	if c.ReplicaTimeout == 0 {
		c.ReplicaTimeout = defaultReplicaTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func validFloor(floor int64) error {
	if floor < 0 || floor == math.MaxInt64 {
		return fmt.Errorf("there is no number above the floor %d", floor)
	}
	return nil
}

// keys are the keys of one acquisition of resource, in the order in which
// lock.lua takes them. The name of the resource is the hash tag of all of
// them, and has no braces of its own.
func (c *Config) keys(resource, holder string) []string {
	lock := c.Prefix + "{" + locks.Segment(resource) + "}:"
	return []string{lock + "number", lock + "held", lock + "queue", lock + "until", lock + "grave:" + holder}
}
