package etcdlock

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/locks/internal/wait"
)

const (
	// maxBatch is how many keys are read in one request; etcd's limit is 128.
	maxBatch = 100
	// gather is how long a doubt waits for others: watches are confirmed one
	// after the other.
	gather = 50 * time.Millisecond
)

// watchOwn has the lease end when its key is deleted: by hand, or with its
// session before this process knows.
func (le *lease) watchOwn() {
	l := le.session.locker
	own := &want{key: le.place.key, after: le.place.rev, past: true, patient: true}
	own.tell = func(err error) {
		if err == nil {
			l.sessions.Go(le.deleted)
		} else {
			l.doubt(doubt{le, own})
		}
	}
	l.watches.want(own)
	context.AfterFunc(le.Context(), func() { l.watches.drop(own) })
}

// doubt is a lease whose key may have been deleted when nobody watched it.
type doubt struct {
	lease *lease
	own   *want
}

// doubts are those of a Locker.
type doubts struct {
	mu       sync.Mutex
	waiting  []doubt
	settling bool
}

// doubt has d settled in the background, together with others.
func (l *Locker) doubt(d doubt) {
	l.doubts.mu.Lock()
	defer l.doubts.mu.Unlock()
	l.doubts.waiting = append(l.doubts.waiting, d)
	if !l.doubts.settling {
		l.doubts.settling = true
		l.sessions.Go(l.settle)
	}
}

// take returns the next doubts to settle.
func (ds *doubts) take(n int) []doubt {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var batch []doubt
	for i, d := range ds.waiting {
		if len(batch) == n {
			ds.waiting = ds.waiting[i:]
			return batch
		}
		if d.lease.Context().Err() == nil {
			batch = append(batch, d)
		}
	}
	ds.waiting = nil
	ds.settling = len(batch) != 0
	return batch
}

// settle settles all doubts that there are. A batch that etcd refuses is tried
// again in parts.
func (l *Locker) settle() {
	for size := maxBatch; wait.Sleep(l.ctx, gather); {
		batch := l.doubts.take(size)
		if len(batch) == 0 {
			return
		}
		err := l.settleBatch(batch)
		if err == nil {
			continue
		}
		l.config.Logger.Debug("read keys of locks", keyError, err)
		for _, d := range batch {
			l.doubt(d)
		}
		size = max(1, len(batch)/2)
		wait.Sleep(l.ctx, wait.MaxPause)
	}
}

// settleBatch reads the keys of some leases in one request.
func (l *Locker) settleBatch(batch []doubt) error {
	var reads []clientv3.Op
	for _, d := range batch {
		reads = append(reads, clientv3.OpGet(d.own.key, clientv3.WithKeysOnly()))
	}
	var answer *clientv3.TxnResponse
	err := l.retry(l.ctx, func(ctx context.Context) (err error) {
		answer, err = l.client.Txn(ctx).Then(reads...).Commit()
		return err
	})
	if err != nil {
		return err
	}
	for i, d := range batch {
		kvs := answer.Responses[i].GetResponseRange().Kvs
		if len(kvs) == 0 || kvs[0].CreateRevision != d.lease.place.rev {
			d.lease.deleted()
			continue
		}
		d.own.after, d.own.past = answer.Header.Revision, false
		l.watches.want(d.own)
	}
	return nil
}
