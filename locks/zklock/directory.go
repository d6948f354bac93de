package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

// mkdir makes the directory at path, and those above it.
func (s *zkSession) mkdir(ctx context.Context, path string) error {
	err := s.Retry(ctx, func() error {
		_, err := zkconn.Ask(ctx, s.Session, s.directory(path))
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		if err := s.mkdir(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
			return err
		}
		return s.mkdir(ctx, path) // if somebody removes them all the time, ctx ends it
	}
	return denied(err, "make the directory", path)
}

// directory is the request that makes one directory.
func (s *zkSession) directory(path string) func(*zk.Conn) (string, error) {
	config := s.locker.config
	container := config.Containers && strings.HasPrefix(path, config.Root+"/") && path != s.locker.issuerDir()
	return func(c *zk.Conn) (string, error) {
		if container {
			return c.CreateContainer(path, nil, zk.FlagContainer, config.ACL)
		}
		return c.Create(path, nil, zk.FlagPersistent, config.ACL)
	}
}

// denied explains a lack of permissions.
func denied(err error, what, path string) error {
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	return fmt.Errorf("%s %s: the ACL there does not permit it to this client's identities: %w", what, path, err)
}
