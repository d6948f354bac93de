package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

// startOver takes p, which has got no sequence number of its own, out of its
// queue, and makes the directory anew when the others are gone: they go, since
// nobody gets a place any more. Nobody waits in any order meanwhile, for once in
// 2^31 nodes. Numbers by czxid rise on; those by sequence would start again, so
// there it is for an operator to do, who tells the resource.
func (s *zkSession) startOver(ctx context.Context, p *place, waits bool) error {
	if _, err := s.remove(ctx, p); err != nil {
		return err
	}
	if s.locker.config.Number == Sequence {
		return fmt.Errorf("sequence numbers of %s are used up: give the service another issuer, delete the directory, and have the resource adopt the issuer", p.dir)
	}
	var pauses wait.Pauses
	for {
		switch err := s.remake(ctx, p.dir, p.number); {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return nil
		case !errors.Is(err, zk.ErrNotEmpty):
			return denied(err, "make anew the directory", p.dir)
		case !waits:
			return locks.ErrHeld
		}
		if !pauses.Pause(ctx) {
			return wait.Ended(ctx)
		}
	}
}

// remake removes the directory and makes it again, with its ACL, if it is empty
// and nobody has done so since the transaction zxid. A container is only removed:
// whoever comes next makes it.
func (s *zkSession) remake(ctx context.Context, dir string, zxid int64) error {
	type listing struct {
		acl  []zk.ACL
		made int64
	}
	return s.Retry(ctx, func() error {
		now, err := zkconn.Ask(ctx, s.Session, func(c *zk.Conn) (listing, error) {
			acl, stat, err := c.GetACL(dir)
			if err != nil {
				return listing{}, err
			}
			return listing{acl, stat.Czxid}, nil
		})
		if err != nil || now.made > zxid {
			return err
		}
		ops := []any{&zk.DeleteRequest{Path: dir, Version: -1}}
		if !s.locker.config.Containers {
			ops = append(ops, &zk.CreateRequest{Path: dir, Acl: now.acl})
		}
		_, err = zkconn.Ask(ctx, s.Session, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
		return err
	})
}
