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
	// version is that of dir when the node was made, for single nodes.
	version int32
	// asked is the request to make the node, if nobody has seen its reply.
	asked *call[[]zk.MultiResponse]
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

// view is what one round of requests saw of a queue.
type view struct {
	ahead  string // the name of the node to wait for; "" if the lock is granted
	issuer string
}

// enqueue puts p into its queue. If it is alone there, alone, it has the lock:
// the one request says so, and that the issuer is that of the view. Its error is
// zk.ErrNodeExists if p is a single node that is taken.
func (s *session) enqueue(ctx context.Context, p *place) (seen view, alone bool, err error) {
	for {
		issuer, err := s.knownIssuer(ctx)
		if err != nil {
			return view{}, false, err
		}
		p.doubtful = true
		p.asked = start(s, s.creation(p, issuer))
		if _, err := await(ctx, s, p.asked); !isClosed(p.asked.done) {
			return view{}, false, err // what becomes of the request, remove finds out
		}
		results, err := p.asked.value, p.asked.err
		p.asked = nil
		switch failed := failedOp(results); {
		case err == nil:
			return view{issuer: issuer}, results[2].Stat.NumChildren == 1, p.created(results, s.locker.config.Number)
		case errors.Is(err, zk.ErrNoNode) && failed == 0:
			p.doubtful = false
			s.locker.issuer.Store(nil)
		case errors.Is(err, zk.ErrNoNode):
			p.doubtful = false
			if err := s.mkdir(ctx, p.dir); err != nil {
				return view{}, false, err
			}
		case answered(err):
			p.doubtful = false
			return view{}, false, denied(err, "make a node in", p.dir)
		default:
			if err := s.find(ctx, p); err != nil || p.path != "" {
				return view{}, false, err
			}
		}
	}
}

// creation is the request that makes the node of p. All of it happens or
// nothing, in one transaction: see that the issuer is still the one, create the
// node, and write nothing into its directory. The answer to that last one has
// the id of the transaction, which is the node's czxid, and how many nodes
// there are in the directory.
func (s *session) creation(p *place, issuer string) func(*zk.Conn) ([]zk.MultiResponse, error) {
	config := s.locker.config
	node := &zk.CreateRequest{Path: p.dir + "/" + singleName, Acl: config.ACL, Flags: zk.FlagEphemeral}
	if p.single {
		node.Data = []byte(p.entry.holder)
	} else {
		node.Path = p.dir + "/" + p.entry.prefix()
		node.Flags = zk.FlagEphemeralSequential
	}
	return func(c *zk.Conn) ([]zk.MultiResponse, error) {
		return c.Multi(
			&zk.CheckVersionRequest{Path: config.Root + "/" + issuerName + "/" + issuer, Version: -1},
			node,
			&zk.SetDataRequest{Path: p.dir, Version: -1},
		)
	}
}

func (p *place) created(results []zk.MultiResponse, kind Number) error {
	dir := results[2].Stat
	p.version = dir.Version
	return p.made(results[1].String, dir.Mzxid, kind)
}

// failedOp is the index of the operation that made a transaction fail; -1 if
// none did.
func failedOp(results []zk.MultiResponse) int {
	return slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil })
}

// find looks for the node of a place in doubt: the reply to its creation is
// lost. Without an error either p.path is set, or the node is not there and will
// not be. For the server to which a session comes back ends its old connection
// first (ZooKeeperServer.processConnectRequest, CLIENT_RECONNECT), and what is
// still on its way from another one is refused (SessionMovedException).
func (s *session) find(ctx context.Context, p *place) error {
	err := s.retry(ctx, func() error {
		// The server of the new connection may lag behind the one that created
		// the node.
		if _, err := ask(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(p.dir) }); err != nil {
			return err
		}
		if p.single {
			return s.findSingle(ctx, p)
		}
		names, err := ask(ctx, s, children(p.dir))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, p.entry.prefix()) })
		if i < 0 {
			return nil
		}
		path := p.dir + "/" + names[i]
		stat, err := ask(ctx, s, func(c *zk.Conn) (*zk.Stat, error) {
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

// look reads what p waits for and, in the same round of requests, the issuer,
// unless the caller has just seen it. It returns errDeleted if p is not in the
// queue any more.
func (s *session) look(ctx context.Context, p *place, issuer string) (view, error) {
	var names, issuers []string
	err := s.retry(ctx, func() (err error) {
		queue := start(s, children(p.dir))
		if issuer == "" {
			issuers, err = ask(ctx, s, children(s.locker.issuerDir()))
			if errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
		}
		var errQueue error
		if names, errQueue = await(ctx, s, queue); errors.Is(errQueue, zk.ErrNoNode) {
			return errDeleted
		}
		return errors.Join(errQueue, err)
	})
	if err != nil {
		return view{}, denied(err, "read", p.dir)
	}
	if slices.Contains(names, singleName) {
		return view{}, errMixed
	}
	last, found := ahead(names, p.entry)
	if !found {
		return view{}, errDeleted
	}
	if last == "" && issuer == "" {
		issuer, err = s.theIssuer(ctx, issuers)
	}
	return view{ahead: last, issuer: issuer}, err
}

// free returns locks.ErrHeld if somebody is in the queue of p who excludes it,
// before it has a place there.
func (s *session) free(ctx context.Context, p *place) error {
	var names []string
	err := s.retry(ctx, func() (err error) {
		names, err = ask(ctx, s, children(p.dir))
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return denied(err, "read", p.dir)
	case slices.Contains(names, singleName):
		return errMixed
	}
	for _, name := range names {
		if e, ok := parseEntry(name); ok && e.excludes(p.entry.mode) {
			return locks.ErrHeld
		}
	}
	return nil
}
