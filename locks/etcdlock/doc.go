// Package etcdlock is locks in etcd: exclusive and shared, first come first
// served, with the create revision of a key as the fencing token's number.
//
// # The queue
//
// Each acquisition creates a key. The keys of a resource are its queue, in the
// order of their create revisions; who holds the lock is told by nothing but
// the order:
//
//	key                          value     create revision
//	fence/locks/.issuer          k3v9…                      whose revisions the numbers are
//	fence/locks/orders/x/5c55-0  7QZ…      42               holds the lock: it is the oldest
//	fence/locks/orders/s/694d-0  B5D…      45               waits for 42, the youngest writer before it
//	fence/locks/orders/s/5c55-1  KMX…      46               waits for 42
//	fence/locks/orders/x/9b30-0  3RW…      51               waits for 46, then 45: for all that is older
//	fence/locks/orders/s/694d-1  Y2A…      52               waits for 51: a reader does not overtake a writer
//
// x is exclusive, s is shared; the value is the token's holder. The resource is
// one segment (locks.Segment). The last segment is a session and a slot of it,
// used by one acquisition after another: etcd's index keeps every name until it
// is compacted, and a new one for each acquisition would make each look at the
// queue slower than the one before. So it is key and create revision together
// that tell acquisitions apart.
//
// To acquire is one transaction that puts the key, reads the key to wait for
// and reads the issuer; to release is one that deletes the key if its create
// revision is still ours. So a lock that nobody else wants costs two requests.
//
// A waiter watches one key only, the youngest of those that it waits for, so
// the end of a lock wakes one writer, or the readers that may all go; nobody
// else. Then it looks again, in one request that reads its own key, what is
// before it and the issuer, all at one moment. So a grant after a wait is three
// requests, and a message to begin the watch, whatever the number of waiters.
// The watch starts at the moment, not in the past: etcd serves watches that
// start in the past from a loop that runs every 100 ms. Where it turns out to
// have begun after what the waiter knows, the waiter looks once more.
//
// All watches of a Locker, of keys ahead and of its own, share one stream, with
// two goroutines of this package, and one message every third of the TTL that
// asks for a sign of life. A watch outlives its purpose for a while: contenders
// that take turns come to wait behind the same key again, and find it watched.
//
// All keys of a Locker are on one session, an etcd lease. It is opened by the
// first acquisition, renewed every third of the TTL while somebody holds or
// waits, kept for one TTL after that, then revoked.
//
// # Guarantees
//
// Number: the create revision of the key, which etcd's Raft log orders. Since
// the queue is served in that order, numbers rise from grant to grant for each
// pair that excludes each other, over releases, crashes, elections and
// restarts.
//
// Local deadline: Lost is closed at the latest 19/20 of the TTL after the last
// renewal that was answered was sent, by this process's monotonic clock,
// whether etcd answers or not. etcd's clock for the lease cannot have started
// before that, so the lock is still this holder's if the two clocks run at
// rates that differ by less than a twentieth.
//
// Early notice: Lost is also closed, within a fraction of a second, when
// somebody deletes the lock's key or revokes its session, provided that the
// connection works. A waiter whose key goes that way returns at once, with
// locks.ErrLost. (The key is watched from 200 ms after the acquisition began;
// shorter locks learn of it from their release. When the stream of watches has
// broken, the keys are watched anew and then read, 100 in a request.)
//
// Lost replies (I8): a request without an answer is sent again or undone. The
// key's value tells whether it arrived. If it may still be on its way when the
// acquisition is over, a second key, fence/locks/.dead/<session>-<slot>, makes
// it fail whenever it arrives, and the slot is not used again. Those keys go
// with the session.
//
// Nothing left: a key that cannot be deleted at once is deleted in the
// background, and its session takes no new locks until then, so that it ends
// with those that it has; its end removes the key.
//
// # Not guaranteed
//
// Mutual exclusion by the lock alone: see package locks. In particular, the
// monotonic clock stands still while the machine is suspended, and a process
// that is stopped learns of its lost lease when it runs again. Present the
// token.
//
// That a crash frees the lock after one TTL: a new leader of etcd gives every
// lease its whole TTL again. After a crash allow for the TTL, plus the TTL and
// an election for each election meanwhile. etcd's smallest TTL is 1.5 election
// timeouts, 2 s by default.
//
// That all locks are lost one by one: those of a Locker share a session, so
// they are lost together. Use several Lockers where that matters.
//
// Numbers after a snapshot restore: etcd's revisions go back with its data, so
// it hands out numbers a second time, and no client can tell. The resource
// can: it refuses them, as stale or duplicate, until they pass its mark. That
// is safe but blocks honest holders. Restore with
//
//	etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted …
//
// (etcd 3.6 and later) so that they rise on; or replace the issuer, by
// RotateIssuer or fenceproxy lock rotate-issuer, and have every resource adopt
// the new one (fenceproxy marks adopt). A new cluster has another issuer by
// itself, so its low numbers are refused as foreign until a resource adopts it.
//
// A hung member: a watch on a member that hangs with its connection open is
// noticed after one TTL, and then moved. Set clientv3.Config.DialKeepAliveTime
// and DialKeepAliveTimeout to notice it sooner.
//
// # Permissions
//
// With authentication on, the user needs readwrite on the prefix (and on the
// issuer key, if it is elsewhere). An authentication that expires is renewed by
// the client, for a watch by opening a new one. A client that was given a fixed
// token instead of a password cannot renew it.
//
// # Known bugs of locks in etcd
//
// Those that others had are named at the tests that keep them out. Without a
// test are: that a restored snapshot repeats numbers (etcd #16028), which no
// client can prevent, see above; a child process that outlives its lock (etcd
// #7983), since nothing here starts one; and a panic for want of an
// authentication (etcd #13975), since New asks etcd for nothing.
package etcdlock
