package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

var _ locks.IssuerLocker = (*Locker)(nil)

// Issuer implements locks.IssuerLocker.
func (l *Locker) Issuer(ctx context.Context) (string, error) {
	var issuer string
	err := zkconn.Visit(ctx, l.connection(), func(c *zk.Conn) error {
		if _, err := c.Sync(l.issuerDir()); err != nil {
			return err
		}
		found, err := l.readIssuers(c)
		issuer = found.text()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read issuer: %w", err)
	}
	return issuer, nil
}

// RotateIssuer implements locks.IssuerLocker. It is one transaction; sessions
// with locks watch the issuer, and their servers tell them of it before they
// answer a request that decides a later grant.
func (l *Locker) RotateIssuer(ctx context.Context, old string) (string, error) {
	fresh := locks.NewID()
	if err := zkconn.Visit(ctx, l.connection(), func(c *zk.Conn) error { return l.swapIssuer(c, old, fresh) }); err != nil {
		return "", fmt.Errorf("replace issuer %q: %w", old, err)
	}
	return fresh, nil
}

// issuers is what is in the issuer's directory.
type issuers struct {
	names   []string
	version int32 // of the directory
	missing bool  // the directory
}

// text is the issuer; where there are several, by somebody's mistake, all of
// them, which is no issuer.
func (i issuers) text() string { return strings.Join(i.names, ",") }

func (l *Locker) readIssuers(c *zk.Conn) (issuers, error) {
	names, stat, err := c.Children(l.issuerDir())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return issuers{missing: true}, nil
	case err != nil:
		return issuers{}, denied(err, "read", l.issuerDir())
	}
	slices.Sort(names)
	return issuers{names: names, version: stat.Version}, nil
}

// swapIssuer may be repeated: it finds what an attempt has done that was not
// answered, and what such an attempt does later the comparison prevents.
func (l *Locker) swapIssuer(c *zk.Conn, old, fresh string) error {
	dir := l.issuerDir()
	if _, err := c.Sync(dir); err != nil {
		return err
	}
	found, err := l.readIssuers(c)
	switch {
	case err != nil:
		return err
	case found.text() == fresh:
		return nil
	case found.text() != old:
		return fmt.Errorf("%w: %q", locks.ErrIssuerChanged, found.text())
	case found.missing:
		if err := l.makePath(c, dir); err != nil {
			return denied(err, "make the directory", dir)
		}
	}
	// The version is that of makeIssuer too, and is compared last: whoever saw
	// the directory empty has seen it before that.
	var ops []any
	for _, name := range found.names {
		ops = append(ops, &zk.DeleteRequest{Path: dir + "/" + name, Version: -1})
	}
	ops = append(ops,
		&zk.CreateRequest{Path: dir + "/" + fresh, Acl: l.config.ACL},
		&zk.SetDataRequest{Path: dir, Version: found.version})
	_, err = c.Multi(ops...)
	for _, meanwhile := range []error{zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty} {
		if errors.Is(err, meanwhile) {
			return l.swapped(c, fresh)
		}
	}
	return denied(err, "replace the issuer in", dir)
}

// swapped looks who was faster: somebody else, or an earlier attempt.
func (l *Locker) swapped(c *zk.Conn, fresh string) error {
	found, err := l.readIssuers(c)
	if err != nil || found.text() == fresh {
		return err
	}
	return fmt.Errorf("%w: %q", locks.ErrIssuerChanged, found.text())
}

// makePath makes a directory, and those above it that are missing.
func (l *Locker) makePath(c *zk.Conn, dir string) error {
	for i := 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		_, err := c.Create(dir[:i], nil, zk.FlagPersistent, l.config.ACL)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			// Where nothing may be made, what has to be there may be there.
			if there, _, errThere := c.Exists(dir[:i]); errThere != nil || !there {
				return err
			}
		}
	}
	return nil
}
