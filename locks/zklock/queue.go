package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

// errMixed: Lockers with and without Config.Single meet at one lock. They do
// not see each other, so neither gets it.
var errMixed = errors.New("a Locker with Config.Single and one without it are at the same lock")

// place is the place of one acquisition in the queue of its resource.
type place struct {
	dir    string // of the resource
	entry  entry  // name and sequence are set when path is
	single bool   // it is no queue, but a single node
	// path is that of the node, "" until ZooKeeper said that it is there.
	path   string
	number int64 // of the token
	// rings: p was granted after a wait, so those behind it do not know that it
	// was. What removes it makes and removes its bell before that, in the same
	// transaction: the event of the one before that of the other tells them that
	// p held the lock alone, and so that nothing is left ahead of them.
	rings bool
	// version is that of dir when the node was made, for single nodes.
	version int32
	// asked is the request to make the node, if nobody has seen its reply.
	asked *zkconn.Call[[]zk.MultiResponse]
	// doubtful: such a request was sent, and may have been carried out.
	doubtful bool
}

func (l *Locker) place(resource, holder string, mode guard.Mode, session int64) place {
	return place{
		dir:    l.config.Root + "/" + locks.Segment(resource),
		entry:  entry{mode: mode, holder: holder, session: uint64(session)}, //nolint:gosec // an id
		single: l.config.Single,
	}
}

// bell is the path of the bell of an entry in the queue of p.
func (p *place) bell(e entry) string { return p.dir + "/" + e.bell() }

// made takes ZooKeeper's word that the node at path was created by the
// transaction zxid.
func (p *place) made(path string, zxid int64, kind Number) error {
	p.path, p.number, p.doubtful = path, zxid, false
	if p.single {
		return nil
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	e, ok := parseEntry(name)
	if !ok {
		return fmt.Errorf("ZooKeeper made a node %q", path)
	}
	p.entry = e
	if kind == Sequence {
		p.number = e.number()
	}
	return nil
}

// enqueue puts p into its queue. If it is alone there, it has the lock: the one
// request says so. Its error is zk.ErrNodeExists if p is a single node that is
// taken.
func (s *zkSession) enqueue(ctx context.Context, p *place) (alone bool, err error) {
	for {
		p.doubtful = true
		p.asked = zkconn.Start(s.Session, s.creation(p))
		if _, err := zkconn.Await(ctx, s.Session, p.asked); !p.asked.Done() {
			return false, err // what becomes of the request, remove finds out
		}
		results, err := p.asked.Result()
		p.asked = nil
		switch {
		case err == nil:
			return results[1].Stat.NumChildren == 1, p.created(results, s.locker.config.Number)
		case errors.Is(err, zk.ErrNoNode):
			p.doubtful = false
			if err := s.mkdir(ctx, p.dir); err != nil {
				return false, err
			}
		case zkconn.Answered(err):
			p.doubtful = false
			return false, denied(err, "make a node in", p.dir)
		default:
			if err := s.find(ctx, p); err != nil || p.path != "" {
				return false, err
			}
		}
	}
}

// creation is the request that makes the node of p, and writes nothing into its
// directory, in one transaction. The answer to the write has the id of the
// transaction, which is the node's czxid, and how many nodes there are in the
// directory.
func (s *zkSession) creation(p *place) func(*zk.Conn) ([]zk.MultiResponse, error) {
	node := &zk.CreateRequest{Path: p.dir + "/" + singleName, Acl: s.locker.config.ACL, Flags: zk.FlagEphemeral}
	if p.single {
		node.Data = []byte(p.entry.holder)
	} else {
		node.Path = p.dir + "/" + p.entry.prefix()
		node.Flags = zk.FlagEphemeralSequential
	}
	return func(c *zk.Conn) ([]zk.MultiResponse, error) {
		return c.Multi(node, &zk.SetDataRequest{Path: p.dir, Version: -1})
	}
}

func (p *place) created(results []zk.MultiResponse, kind Number) error {
	dir := results[1].Stat
	p.version = dir.Version
	return p.made(results[0].String, dir.Mzxid, kind)
}

// find looks for the node of a place in doubt: the reply to its creation is
// lost. Without an error either p.path is set, or the node is not there and will
// not be. For the server to which a session comes back ends its old connection
// first (ZooKeeperServer.processConnectRequest, CLIENT_RECONNECT), and what is
// still on its way from another one is refused (SessionMovedException).
func (s *zkSession) find(ctx context.Context, p *place) error {
	err := s.Retry(ctx, func() error {
		// The server of the new connection may lag behind the one that created
		// the node.
		if _, err := zkconn.Ask(ctx, s.Session, func(c *zk.Conn) (string, error) { return c.Sync(p.dir) }); err != nil {
			return err
		}
		if p.single {
			return s.findSingle(ctx, p)
		}
		names, err := zkconn.Ask(ctx, s.Session, children(p.dir))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, p.entry.prefix()) })
		if i < 0 {
			return nil
		}
		path := p.dir + "/" + names[i]
		stat, err := zkconn.Ask(ctx, s.Session, func(c *zk.Conn) (*zk.Stat, error) {
			_, stat, err := c.Get(path)
			return stat, err
		})
		if err != nil {
			return err
		}
		return p.made(path, stat.Czxid, s.locker.config.Number)
	})
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		p.doubtful = false
		return nil
	}
	return err
}

func (e entry) prefix() string { return entryPrefix(e.mode, e.holder, int64(e.session)) } //nolint:gosec // an id

// children is the request for the names in a directory.
func children(dir string) func(*zk.Conn) ([]string, error) {
	return func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(dir)
		return names, err
	}
}

// look returns what p waits for; nothing if p is granted. It returns errDeleted
// if p is not in the queue any more.
func (s *zkSession) look(ctx context.Context, p *place) (wait next, err error) {
	names, err := s.list(ctx, p.dir)
	if err != nil {
		return next{}, err
	}
	wait, found := ahead(names, p.entry)
	if !found {
		return next{}, errDeleted
	}
	return wait, nil
}

// list reads the names in the directory of a queue, none if there is none.
func (s *zkSession) list(ctx context.Context, dir string) ([]string, error) {
	names, err := s.names(ctx, dir)
	if slices.Contains(names, singleName) {
		return nil, errMixed
	}
	return names, err
}

func (s *zkSession) names(ctx context.Context, dir string) (names []string, err error) {
	err = s.Retry(ctx, func() (err error) {
		names, err = zkconn.Ask(ctx, s.Session, children(dir))
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, denied(err, "read", dir)
}

// free returns locks.ErrHeld if somebody is in the queue of p who excludes it,
// before it has a place there.
func (s *zkSession) free(ctx context.Context, p *place) error {
	names, err := s.list(ctx, p.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if e, ok := parseEntry(name); ok && e.excludes(p.entry.mode) {
			return locks.ErrHeld
		}
	}
	return nil
}
