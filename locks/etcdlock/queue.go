package etcdlock

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// place is the place of one acquisition in the queue of its resource.
type place struct {
	// key is named after the session and a slot of it, not after the holder,
	// which is its value: etcd's index keeps every name until it is compacted,
	// and each look at the queue would walk over all of them.
	key    string
	holder string
	slot   int
	// ahead is the range of the keys that the place waits for, if they are
	// older: the whole queue for a writer, its writers for a reader.
	ahead string
	// grave is the key whose presence keeps key from being created.
	grave   string
	session clientv3.LeaseID
	// rev is the create revision of key: the number of the token. It is 0 until
	// etcd said that key is there.
	rev int64
	// doubtful: a request that creates key was not answered. It may have been
	// applied, or still be on its way. The slot is never used again.
	doubtful bool
}

func (c *Config) place(resource, holder string, mode guard.Mode, session clientv3.LeaseID, slot int) place {
	queue := c.Prefix + locks.Segment(resource) + "/"
	name := fmt.Sprintf("%x-%d", int64(session), slot)
	p := place{
		key:     queue + mode.String() + "/" + name,
		holder:  holder,
		slot:    slot,
		ahead:   queue,
		grave:   c.Prefix + ".dead/" + name,
		session: session,
	}
	if mode == guard.Shared {
		p.ahead = queue + guard.Exclusive.String() + "/"
	}
	return p
}

// view is what one request saw of a queue, all at one moment.
type view struct {
	rev    int64  // etcd's revision then
	ahead  string // the youngest of the keys to wait for; "" if the lock is granted
	issuer string
}

// enqueue puts p into its queue, in one request that also decides whether it
// is granted. Without wait it does so only if it is granted, and else returns
// locks.ErrHeld.
func (l *Locker) enqueue(ctx context.Context, p *place, wait bool) (view, error) {
	unless := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(p.grave), "=", 0),
	}
	if !wait {
		unless = append(unless, clientv3.Compare(clientv3.CreateRevision(p.ahead).WithPrefix(), "=", 0))
	}
	create := []clientv3.Op{
		youngest(p.ahead), clientv3.OpGet(l.config.IssuerKey),
		clientv3.OpPut(p.key, p.holder, clientv3.WithLease(p.session)),
	}
	var seen view
	err := l.retry(ctx, func(ctx context.Context) error {
		answer, err := l.client.Txn(ctx).If(unless...).Then(create...).
			Else(clientv3.OpGet(p.key)).Commit()
		switch {
		case err != nil:
			p.doubtful = p.doubtful || !final(err)
			return err
		case answer.Succeeded:
			p.rev = answer.Header.Revision
			seen, err = read(answer.Header, answer.Responses[0], answer.Responses[1], "")
			if errors.Is(err, errNoIssuer) {
				return nil // look makes one
			}
			return err
		}
		own := answer.Responses[0].GetResponseRange().Kvs
		switch {
		case len(own) != 0 && string(own[0].Value) != p.holder:
			return fmt.Errorf("key %q is taken by %q", p.key, own[0].Value)
		case len(own) != 0: // an attempt that was not answered got through
			p.rev = own[0].CreateRevision
			return nil
		case wait:
			return errDeleted
		}
		return locks.ErrHeld
	})
	if err == nil && seen.rev == 0 {
		return l.look(ctx, p)
	}
	return seen, err
}

// look reads what p waits for, in one request that also decides whether p is
// granted. It returns errDeleted if p is not in the queue any more.
func (l *Locker) look(ctx context.Context, p *place) (view, error) {
	id := locks.NewID()
	own := clientv3.OpGet(p.key, clientv3.WithKeysOnly())
	ahead := youngest(p.ahead, clientv3.WithMaxCreateRev(p.rev-1))
	// A request that only reads needs no consensus; the one that can create
	// the issuer is for when somebody removed it.
	issuer := clientv3.OpGet(l.config.IssuerKey)
	for {
		var answer *clientv3.TxnResponse
		err := l.retry(ctx, func(ctx context.Context) (err error) {
			answer, err = l.client.Txn(ctx).Then(own, ahead, issuer).Commit()
			return err
		})
		if err != nil {
			return view{}, err
		}
		if kvs := answer.Responses[0].GetResponseRange().Kvs; len(kvs) == 0 || kvs[0].CreateRevision != p.rev {
			return view{}, errDeleted
		}
		seen, err := read(answer.Header, answer.Responses[1], answer.Responses[2], id)
		if !errors.Is(err, errNoIssuer) {
			return seen, err
		}
		issuer = l.issuerOp(id)
	}
}

// remove takes p out of its queue for good, and reports whether it was in it.
// A place in doubt also gets its grave, so that a request to create it that is
// still on its way cannot bring it back: nobody would hold that lock (I8). The
// grave goes with the session, and so would the key.
func (l *Locker) remove(ctx context.Context, p *place) (found bool, err error) {
	var only []clientv3.Cmp
	ops := []clientv3.Op{clientv3.OpDelete(p.key)}
	if p.doubtful {
		ops = append(ops, clientv3.OpPut(p.grave, "", clientv3.WithLease(p.session)))
	} else {
		only = append(only, clientv3.Compare(clientv3.CreateRevision(p.key), "=", p.rev))
	}
	doubtful := false
	err = l.retry(ctx, func(ctx context.Context) error {
		answer, err := l.client.Txn(ctx).If(only...).Then(ops...).Commit()
		switch {
		case err == nil:
			// What an attempt that was not answered removed was there.
			found = doubtful || answer.Succeeded && answer.Responses[0].GetResponseDeleteRange().Deleted != 0
		case isLeaseNotFound(err):
			return nil
		}
		doubtful = doubtful || !final(err)
		return err
	})
	return found, err
}

// youngest reads the name of the key that was created last below prefix.
func youngest(prefix string, opts ...clientv3.OpOption) clientv3.Op {
	opts = append(opts, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
	return clientv3.OpGet(prefix, opts...)
}

// issuerOp reads the issuer, or makes it id if there is none yet.
func (l *Locker) issuerOp(id string) clientv3.Op {
	key := l.config.IssuerKey
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, id)},
		[]clientv3.Op{clientv3.OpGet(key)},
	)
}

var errNoIssuer = errors.New("no issuer")

// read makes a view of the answers to youngest, and to issuerOp or a plain
// read of the issuer.
func read(header *pb.ResponseHeader, ahead, issuer *pb.ResponseOp, id string) (view, error) {
	seen := view{rev: header.Revision}
	if kvs := ahead.GetResponseRange().Kvs; len(kvs) != 0 {
		seen.ahead = string(kvs[0].Key)
	}
	found := issuer.GetResponseRange().GetKvs()
	if nested := issuer.GetResponseTxn(); nested != nil {
		if nested.Succeeded {
			found = []*mvccpb.KeyValue{{Value: []byte(id)}}
		} else {
			found = nested.Responses[0].GetResponseRange().Kvs
		}
	}
	if len(found) == 0 {
		return view{}, errNoIssuer
	}
	seen.issuer = string(found[0].Value)
	if seen.issuer == "" || guard.ValidateID(seen.issuer) != nil {
		return view{}, fmt.Errorf("issuer key holds %q, which is not [A-Za-z0-9_-]{1,%d}", seen.issuer, guard.MaxIDLen)
	}
	return seen, nil
}
