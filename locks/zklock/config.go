package zklock

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// The keys of log lines.
const (
	keyResource = "resource"
	keyHolder   = "holder"
	keySession  = "session"
	keyError    = "error"
)

const (
	defaultTTL  = 15 * time.Second
	defaultRoot = "/fence/locks"
	minTTL      = time.Second
	maxTTL      = time.Hour
)

// Dial says how to reach ZooKeeper. A Locker opens its connections itself: a
// zk.Conn tells neither when a server was heard last, nor which timeout the
// session got, and it goes on with another session when its own is over.
type Dial struct {
	// Servers are the members of the ensemble, host:port. The port defaults to
	// 2181. Names are resolved anew for every connection.
	Servers []string
	// Auth are the identities of the client, added to each session.
	Auth []Auth
	// TLS is the configuration of the connections; nil for none.
	TLS *tls.Config
}

// Auth is one identity of a client of ZooKeeper.
type Auth struct {
	// Scheme is that of ZooKeeper, "digest" for a name and a password.
	Scheme string
	// Credentials are what the scheme wants, "name:password" for "digest".
	Credentials string
}

// Number is where the numbers of tokens come from.
type Number int

const (
	// Czxid is the id of the transaction that made the lock's node. It rises
	// for as long as the ensemble keeps its data.
	Czxid Number = iota
	// Sequence is the number at the end of the node's name, plus one. It is
	// smaller, and weaker: it starts again from 1 when somebody deletes the
	// resource's directory, which somebody has to do after 2^31 nodes in it:
	// from then on acquisitions fail. The resource refuses the repeated numbers
	// until they pass its mark, or it has adopted another issuer.
	Sequence
)

// Config says how a Locker uses ZooKeeper. The zero Config is usable.
type Config struct {
	// TTL is how long a lock outlives the last sign of life of its process: the
	// timeout to ask for when a session is opened. The server keeps it within
	// bounds of its own, by default 2 and 20 ticks, so 4 and 40 s. At least 1 s.
	// Lost fires after 2/3 of what the server granted. Defaults to 15 s.
	TTL time.Duration
	// Root is the directory of all the nodes. Lockers see each other's locks if
	// their Root is the same; then their Number and Single must be too. It is
	// made when it is missing. Defaults to "/fence/locks".
	Root string
	// ACL is given to all nodes that the Locker makes, the directories included,
	// whose permissions decide about the nodes in them. Without the permissions
	// read, write, create and delete for all who lock there, locks do not work.
	// Defaults to all permissions for the identities of Dial.Auth alone, or for
	// everybody if there are none.
	ACL []zk.ACL
	// Number is where the numbers of tokens come from. Defaults to Czxid.
	Number Number
	// Containers makes the directories of the resources as containers, which a
	// server (3.5 or later) removes some time after their last lock is gone.
	// Not together with Sequence or Single. Defaults to directories that stay.
	Containers bool
	// Single makes locks of a single node instead of a queue: whoever creates it
	// has the lock, and all who wait are told when it goes. They all try again
	// then, so a grant costs requests in proportion to the waiters, and nothing
	// says who comes next: for a few contenders at most. There are no shared
	// locks, guard.ErrUnsupported. Defaults to a queue.
	Single bool
	// Logger gets a line for every lease that is lost and for every node that
	// could not be removed at once. Defaults to none.
	Logger *slog.Logger
}

func (d Dial) validate() (Dial, error) {
	if len(d.Servers) == 0 || slices.Contains(d.Servers, "") {
		return d, errors.New("zklock: a server is missing")
	}
	d.Servers = slices.Clone(d.Servers)
	d.Auth = slices.Clone(d.Auth)
	for _, auth := range d.Auth {
		if auth.Scheme == "" {
			return d, errors.New("zklock: an identity without a scheme")
		}
	}
	return d, nil
}

func (c Config) withDefaults(d Dial) (Config, error) {
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.TTL < minTTL || c.TTL > maxTTL {
		return c, fmt.Errorf("zklock: TTL %v is not between %v and %v", c.TTL, minTTL, maxTTL)
	}
	if c.Root == "" {
		c.Root = defaultRoot
	}
	if err := validRoot(c.Root); err != nil {
		return c, err
	}
	switch {
	case c.Number != Czxid && c.Number != Sequence:
		return c, fmt.Errorf("zklock: there is no Number %d", c.Number)
	case c.Single && c.Number == Sequence:
		return c, errors.New("zklock: a lock of a single node has no Sequence")
	case c.Containers && (c.Single || c.Number == Sequence):
		return c, errors.New("zklock: Sequence and Single need directories that stay, not Containers")
	}
	c.ACL = slices.Clone(c.ACL)
	if len(c.ACL) == 0 {
		c.ACL = zk.WorldACL(zk.PermAll)
		if len(d.Auth) > 0 {
			c.ACL = zk.AuthACL(zk.PermAll)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// validRoot refuses what ZooKeeper would, and the places where names of
// resources could mean something else: "/zookeeper" is ZooKeeper's own.
func validRoot(root string) error {
	segments := strings.Split(root, "/")
	if segments[0] != "" || len(segments) < 2 || segments[1] == "zookeeper" {
		return fmt.Errorf("zklock: Root %q is no path of a directory for locks", root)
	}
	for _, s := range segments[1:] {
		control := func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }
		if s == "" || s == "." || s == ".." || strings.ContainsFunc(s, control) {
			return fmt.Errorf("zklock: Root %q has the segment %q", root, s)
		}
	}
	return nil
}
