package zklock

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

// contend gets the lock of a single node: whoever creates it has it, and all
// others are told when it is gone, and try again.
func (le *lease) contend(ctx context.Context, wait bool) error {
	s, p := le.session, &le.place
	for {
		alone, err := s.enqueue(ctx, p)
		switch {
		case err == nil:
			le.queued()
			if alone {
				return nil
			}
			return s.unmixed(ctx, p)
		case !errors.Is(err, zk.ErrNodeExists):
			return err
		case !wait:
			return locks.ErrHeld
		}
		if err := s.awaitFree(ctx, p.dir+"/"+singleName); err != nil {
			return err
		}
	}
}

// awaitFree returns when the node at path is gone, or may be.
func (s *zkSession) awaitFree(ctx context.Context, path string) error {
	gone := make(chan struct{}, 1)
	w := s.Watch(path, func(zk.EventType) { gone <- struct{}{} })
	defer w.Stop()
	switch _, err := w.Arm(ctx); {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return denied(err, "read", path)
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return wait.Ended(ctx)
	}
}

// unmixed returns errMixed if there is a queue where the single node of p is.
func (s *zkSession) unmixed(ctx context.Context, p *place) error {
	names, err := s.names(ctx, p.dir)
	if slices.ContainsFunc(names, func(name string) bool { _, ok := parseEntry(name); return ok }) {
		return errMixed
	}
	return err
}

// findSingle is find for a single node: it is that of p if it holds its holder.
func (s *zkSession) findSingle(ctx context.Context, p *place) error {
	version, err := s.version(ctx, p.dir)
	if err != nil {
		return err
	}
	path := p.dir + "/" + singleName
	node, err := s.single(ctx, path)
	if err != nil || node.holder != p.entry.holder {
		return err
	}
	p.version = version
	return p.made(path, node.czxid, Czxid)
}

func (s *zkSession) version(ctx context.Context, dir string) (int32, error) {
	return zkconn.Ask(ctx, s.Session, func(c *zk.Conn) (int32, error) {
		_, stat, err := c.Get(dir)
		if err != nil {
			return 0, err
		}
		return stat.Version, nil
	})
}

// owned is a single node and whose it is.
type owned struct {
	czxid  int64
	holder string
}

func (s *zkSession) single(ctx context.Context, path string) (owned, error) {
	return zkconn.Ask(ctx, s.Session, func(c *zk.Conn) (owned, error) {
		data, stat, err := c.Get(path)
		if err != nil {
			return owned{}, err
		}
		return owned{stat.Czxid, string(data)}, nil
	})
}

// deleteSingle removes the node of p and no other: its name is that of the next
// one too. But whoever makes the next one changes the version of the directory.
// Its error is zk.ErrNoNode if the node is gone, or not that of p.
func (s *zkSession) deleteSingle(ctx context.Context, p *place) error {
	for {
		version := p.version
		_, err := zkconn.Ask(ctx, s.Session, func(c *zk.Conn) ([]zk.MultiResponse, error) {
			return c.Multi(
				&zk.CheckVersionRequest{Path: p.dir, Version: version},
				&zk.DeleteRequest{Path: p.dir + "/" + singleName, Version: -1},
			)
		})
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
		// It is the next one's, or the directory was changed in another way.
		now := *p
		now.path = ""
		if err := s.findSingle(ctx, &now); err != nil {
			return err
		}
		if now.path == "" {
			return zk.ErrNoNode
		}
		p.version = now.version
	}
}
