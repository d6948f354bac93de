package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

var _ locks.StatusLocker = (*Locker)(nil)

// Status implements locks.StatusLocker. The queue and the issuer are of one
// moment, the time that is left of the sessions of a later one. Number is known
// of waiters too. It takes the permission to read below Config.Prefix.
func (l *Locker) Status(ctx context.Context, resource string) (locks.Status, error) {
	if err := guard.ValidateResource(resource); err != nil {
		return locks.Status{}, err
	}
	status, err := l.status(ctx, resource)
	if err != nil {
		return locks.Status{}, fmt.Errorf("read the lock of %q: %w", resource, err)
	}
	return status, nil
}

func (l *Locker) status(ctx context.Context, resource string) (locks.Status, error) {
	prefix := l.config.Prefix + locks.Segment(resource) + "/"
	queue := clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	var answer *clientv3.TxnResponse
	err := l.retry(ctx, func(ctx context.Context) (err error) {
		answer, err = l.client.Txn(ctx).Then(queue, clientv3.OpGet(l.config.IssuerKey)).Commit()
		return err
	})
	if err != nil {
		return locks.Status{}, err
	}
	status := locks.Status{Resource: resource}
	var issuer *mvccpb.KeyValue
	if kvs := answer.Responses[1].GetResponseRange().Kvs; len(kvs) != 0 {
		issuer = kvs[0]
		status.Issuer = string(issuer.Value)
	}
	left := map[int64]time.Duration{}
	writer, other := false, false // ahead of the key that is looked at
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		p := placeOf(strings.TrimPrefix(string(kv.Key), prefix), kv)
		if p.Left, p.Timed, err = l.timeLeft(ctx, kv.Lease, left); err != nil {
			return locks.Status{}, err
		}
		exclusive := p.Mode == guard.Exclusive
		if writer || other && exclusive {
			status.Waiters = append(status.Waiters, p)
		} else {
			if began(p.Number, issuer) {
				p.Issuer = status.Issuer
			}
			status.Holders = append(status.Holders, p)
		}
		writer, other = writer || exclusive, true
	}
	return status, nil
}

// placeOf reads a key of a queue. One that is not of this package has no mode,
// and keeps writers from their lock all the same.
func placeOf(name string, kv *mvccpb.KeyValue) locks.Place {
	p := locks.Place{Holder: string(kv.Value), Number: kv.CreateRevision}
	if kv.Lease != 0 {
		p.Session = fmt.Sprintf("%x", kv.Lease)
	}
	switch mode, _, _ := strings.Cut(name, "/"); mode {
	case guard.Exclusive.String():
		p.Mode = guard.Exclusive
	case guard.Shared.String():
		p.Mode = guard.Shared
	}
	return p
}

// began reports whether the acquisition whose key was created at rev began
// under this issuer, so that it cannot have been granted under another one. The
// very first one of a prefix creates its key, finds no issuer, and makes one.
func began(rev int64, issuer *mvccpb.KeyValue) bool {
	return issuer != nil && (rev > issuer.ModRevision || issuer.Version == 1 && rev == issuer.ModRevision-1)
}

// timeLeft asks for the time of a session, once for all of its keys.
func (l *Locker) timeLeft(ctx context.Context, session int64, known map[int64]time.Duration) (left time.Duration, timed bool, err error) {
	if session == 0 {
		return 0, false, nil
	}
	if left, ok := known[session]; ok {
		return left, true, nil
	}
	err = l.retry(ctx, func(ctx context.Context) error {
		answer, err := l.client.TimeToLive(ctx, clientv3.LeaseID(session))
		if err == nil {
			left = time.Duration(answer.TTL) * time.Second // -1 s if it is over
		}
		return err
	})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		return 0, false, nil // it has keys elsewhere
	}
	known[session] = left
	return left, true, err
}
