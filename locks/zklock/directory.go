package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// issuerName is the directory beside those of the resources whose only child's
// name is the issuer. It is a name, and not what a node holds, so that a
// transaction can check it.
const issuerName = ".issuer"

func (l *Locker) issuerDir() string { return l.config.Root + "/" + issuerName }

// knownIssuer returns the issuer as read last. Whoever uses it has to check it.
func (s *session) knownIssuer(ctx context.Context) (string, error) {
	if id := s.locker.issuer.Load(); id != nil {
		return *id, nil
	}
	return s.readIssuer(ctx)
}

// readIssuer reads the issuer, and makes it if there is none.
func (s *session) readIssuer(ctx context.Context) (string, error) {
	var ids []string
	err := s.retry(ctx, func() (err error) {
		ids, err = ask(ctx, s, children(s.locker.issuerDir()))
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", denied(err, "read", s.locker.issuerDir())
	}
	return s.theIssuer(ctx, ids)
}

// theIssuer is the one of ids, the children of the issuer's directory; if there
// are none it makes one.
func (s *session) theIssuer(ctx context.Context, ids []string) (string, error) {
	switch {
	case len(ids) == 0:
		return s.makeIssuer(ctx)
	case len(ids) > 1 || guard.ValidateID(ids[0]) != nil:
		return "", fmt.Errorf("%s has the children %q, want one issuer of [A-Za-z0-9_-]{1,%d}", s.locker.issuerDir(), ids, guard.MaxIDLen)
	}
	s.locker.issuer.Store(&ids[0])
	return ids[0], nil
}

// makeIssuer makes an issuer unless somebody else is faster. The version of the
// directory lets only one of them succeed.
func (s *session) makeIssuer(ctx context.Context) (string, error) {
	dir := s.locker.issuerDir()
	if err := s.mkdir(ctx, dir); err != nil {
		return "", err
	}
	var ids []string
	err := s.retry(ctx, func() error {
		var stat *zk.Stat
		var err error
		ids, err = ask(ctx, s, func(c *zk.Conn) (names []string, err error) {
			names, stat, err = c.Children(dir)
			return names, err
		})
		if err != nil || len(ids) > 0 {
			return err
		}
		id := locks.NewID()
		_, err = ask(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) {
			return c.Multi(
				&zk.SetDataRequest{Path: dir, Version: stat.Version},
				&zk.CreateRequest{Path: dir + "/" + id, Acl: s.locker.config.ACL},
			)
		})
		if errors.Is(err, zk.ErrBadVersion) {
			return errAgain
		}
		ids = []string{id}
		return err
	})
	if err != nil {
		return "", denied(err, "make the issuer in", dir)
	}
	return s.theIssuer(ctx, ids)
}

// errAgain has retry repeat what was answered.
var errAgain = errors.New("somebody else was faster")

// mkdir makes the directory at path, and those above it.
func (s *session) mkdir(ctx context.Context, path string) error {
	err := s.retry(ctx, func() error {
		_, err := ask(ctx, s, s.directory(path))
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
func (s *session) directory(path string) func(*zk.Conn) (string, error) {
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
