package etcdlock

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/locks"
)

var _ locks.IssuerLocker = (*Locker)(nil)

// Issuer implements locks.IssuerLocker.
func (l *Locker) Issuer(ctx context.Context) (string, error) {
	issuer, _, err := l.readIssuer(ctx)
	if err != nil {
		return "", fmt.Errorf("read issuer: %w", err)
	}
	return issuer, nil
}

// RotateIssuer implements locks.IssuerLocker. It is one compare-and-swap on the
// issuer key, and every grant is decided by a request that reads that key, so
// etcd orders them.
func (l *Locker) RotateIssuer(ctx context.Context, old string) (string, error) {
	fresh := locks.NewID()
	err := l.retry(ctx, func(ctx context.Context) error { return l.swapIssuer(ctx, old, fresh) })
	if err != nil {
		return "", fmt.Errorf("replace issuer %q: %w", old, err)
	}
	return fresh, nil
}

// swapIssuer may be repeated: it finds what an attempt has done that was not
// answered, and what such an attempt does later the comparison prevents.
func (l *Locker) swapIssuer(ctx context.Context, old, fresh string) error {
	issuer, rev, err := l.readIssuer(ctx)
	switch {
	case err != nil:
		return err
	case issuer == fresh:
		return nil
	case issuer != old:
		return fmt.Errorf("%w: %q", locks.ErrIssuerChanged, issuer)
	}
	key := l.config.IssuerKey
	answer, err := l.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).
		Then(clientv3.OpPut(key, fresh)).
		Else(clientv3.OpGet(key)).Commit()
	if err != nil || answer.Succeeded {
		return err
	}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		issuer = string(kv.Value)
	}
	if issuer == fresh { // an earlier attempt arrived between the two requests
		return nil
	}
	return fmt.Errorf("%w: %q", locks.ErrIssuerChanged, issuer)
}

// readIssuer reads the issuer key and the revision of its last change, 0 if
// there is none.
func (l *Locker) readIssuer(ctx context.Context) (issuer string, rev int64, err error) {
	err = l.retry(ctx, func(ctx context.Context) error {
		answer, err := l.client.Get(ctx, l.config.IssuerKey)
		if err != nil || len(answer.Kvs) == 0 {
			return err
		}
		issuer, rev = string(answer.Kvs[0].Value), answer.Kvs[0].ModRevision
		return nil
	})
	return issuer, rev, err
}
