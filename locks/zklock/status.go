package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/zklock/internal/zkconn"
)

var _ locks.StatusLocker = (*Locker)(nil)

// Status implements locks.StatusLocker. It opens a connection of its own. The
// queue is of one moment, and then each node in it is read, so that a place may
// be missing that has gone meanwhile. Number is known of waiters too, and
// nothing of the time that is left. It takes the permission to read below
// Config.Root.
func (l *Locker) Status(ctx context.Context, resource string) (locks.Status, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return locks.Status{}, err
	}
	var status locks.Status
	err := zkconn.Visit(ctx, l.connection(), func(c *zk.Conn) (err error) {
		status, err = l.readStatus(c, resource)
		return err
	})
	if err != nil {
		return locks.Status{}, fmt.Errorf("read the lock of %q: %w", resource, err)
	}
	return status, nil
}

func (l *Locker) readStatus(c *zk.Conn, resource string) (locks.Status, error) {
	dir := l.config.Root + "/" + locks.Segment(resource)
	// The member that answers shall know at least what has been granted by now.
	if _, err := c.Sync(dir); err != nil {
		return locks.Status{}, err
	}
	names, _, err := c.Children(dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return locks.Status{}, denied(err, "read", dir)
	}
	issuer, since, err := l.issuerSince(c)
	if err != nil {
		return locks.Status{}, err
	}
	status := locks.Status{Resource: resource, Issuer: issuer}
	var ahead []entry
	for _, e := range entries(names) {
		p, czxid, err := l.readPlace(c, dir, e)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return locks.Status{}, denied(err, "read", dir)
		}
		if slices.ContainsFunc(ahead, func(other entry) bool { return other.excludes(e.mode) }) {
			status.Waiters = append(status.Waiters, p)
		} else {
			if czxid > since && since > 0 {
				p.Issuer = issuer
			}
			status.Holders = append(status.Holders, p)
		}
		ahead = append(ahead, e)
	}
	return status, nil
}

// entries are the nodes of a lock, oldest first. The node of a Config.Single
// comes before a queue, which it should not meet.
func entries(names []string) []entry {
	var all []entry
	for _, name := range names {
		if e, ok := parseEntry(name); ok {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.sequence, b.sequence) })
	if slices.Contains(names, singleName) {
		all = slices.Insert(all, 0, entry{name: singleName, mode: guard.Exclusive})
	}
	return all
}

// readPlace reads the node of an entry. Its number is that of the token.
func (l *Locker) readPlace(c *zk.Conn, dir string, e entry) (p locks.Place, czxid int64, err error) {
	data, stat, err := c.Get(dir + "/" + e.name)
	if err != nil {
		return locks.Place{}, 0, err
	}
	p = locks.Place{Mode: e.mode, Holder: e.holder, Number: stat.Czxid}
	if stat.EphemeralOwner != 0 {
		p.Session = fmt.Sprintf("0x%x", uint64(stat.EphemeralOwner)) //nolint:gosec // an id
	}
	if e.name == singleName {
		p.Holder = string(data)
	} else if l.config.Number == Sequence {
		p.Number = e.number()
	}
	return p, stat.Czxid, nil
}

// issuerSince reads the issuer and the transaction that made it, 0 if there is
// none, or not one.
func (l *Locker) issuerSince(c *zk.Conn) (issuer string, czxid int64, err error) {
	found, err := l.readIssuers(c)
	if err != nil || len(found.names) != 1 {
		return found.text(), 0, err
	}
	_, stat, err := c.Get(l.issuerDir() + "/" + found.names[0])
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return l.issuerSince(c) // replaced in between
	case err != nil:
		return "", 0, denied(err, "read", l.issuerDir())
	}
	return found.names[0], stat.Czxid, nil
}
