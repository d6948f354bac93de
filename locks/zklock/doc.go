// Package zklock is locks in ZooKeeper: exclusive and shared, first come first
// served, with the czxid of a node as the fencing token's number.
//
// # The queue
//
// Each acquisition makes one node, ephemeral and sequential, in the directory of
// its resource (locks.Segment). The nodes there are the queue, in the order of
// their sequence numbers; who holds the lock is told by nothing but the order:
//
//	/fence/locks/.issuer/K3V9…                              whose numbers they are
//	/fence/locks/orders/fence-x-7QZ…-0100a2f4…-0000000041   held          by the oldest
//	/fence/locks/orders/fence-s-B5D…-0100a2f4…-0000000042   waits for 41  the last writer before it
//	/fence/locks/orders/fence-s-KMX…-0100b101…-0000000043   waits for 41
//	/fence/locks/orders/fence-x-3RW…-0100a2f4…-0000000044   waits for 43  then 42: the next lower node
//	/fence/locks/orders/fence-s-Y2A…-0100b101…-0000000045   waits for 44  a reader does not overtake a waiting writer
//
// x is exclusive, s is shared; then comes the token's holder, the session in
// hex, and what ZooKeeper appended. Names of any other form belong to somebody
// else, and do not count.
//
// To acquire is one transaction: create the node, and write nothing into the
// directory. The answer to that write has the id of the transaction, which is
// the node's czxid, and how many nodes the directory has. Whoever is alone in it
// has the lock, with its number, by one request; and releases it by another. Who
// is not alone reads the names, and watches the next node that excludes it and no
// other: five requests for a grant after a wait, whatever the number of waiters,
// and one more if it is longer than 200 ms.
//
// The event that this node is gone is the grant: nothing is read after it. For
// nobody can come to stand ahead of those who are there. So if the node was the
// only one ahead, the lock is free, however it went. If it was not, it may have
// been one that waited, and gave up; but a holder that had to wait tells those
// behind it that it held the lock, and so that all ahead of it are gone. It makes
// and removes a node fence-bell-<holder> in the transaction that removes its own;
// they watch for that too, and ZooKeeper sends the two events in this order. Only
// without it, or after a reader, which may leave other readers ahead, the names
// are read again.
//
// The issuer is watched, which costs no request: ZooKeeper sends the event of a
// watch before any answer or event that shows the same state or a later one, so
// what is known of the issuer when a grant is decided is what was true then. Only
// a session that is younger than 100 ms reads it each time.
//
// All nodes of a Locker are on one session. It is opened by the first
// acquisition, kept while somebody holds or waits and for one TTL after that,
// then closed.
//
// With Config.Single there is no queue but one node, fence-single, which
// everybody tries to create and all who wait watch. That is simple, and a herd:
// see the figures in docs/locks.md.
//
// # Guarantees
//
// Number: the czxid of the node, an id of a transaction of ZooKeeper. Since the
// queue is served in that order, numbers rise from grant to grant for each pair
// that excludes each other, over releases, crashes, elections, restarts, and the
// removal of directories. Sequence numbers do not survive that: they start from
// 0 again.
//
// Local deadline: Lost is closed at the latest 2/3 of the session's timeout
// (which the server decides) after the last request was sent that ZooKeeper's
// leader is known to have seen, by this process's monotonic clock, whether
// anybody answers or not. Pings do not count, as they do for the client: a
// member that is cut off from its leader answers them for seconds (syncLimit),
// while the leader lets the session expire. So the session asks the leader, by a
// sync, each quarter of its timeout. The third that is left is for the half
// tick after which a member tells the leader whom it has heard of, and for clocks
// that run at different rates.
//
// Early notice: Lost is also closed, within a fraction of a second, when
// somebody deletes the lock's node, if the lock was held for longer than 200 ms
// by then and the connection works; and when a server says that the session has
// expired. A waiter whose node goes that way returns at once, with locks.ErrLost;
// in its first 200 ms it may still be granted the lock, and lose it then.
//
// A member that hangs: a connection whose server leaves a request without an
// answer for a sixth of the timeout is cut, in time to keep the session at
// another member. (The client by itself would wait until the locks are lost.)
//
// Lost replies (I8): the name of a node tells whose it is. When the reply to its
// creation is lost, the next connection finds it, after a sync; and if it is not
// there then it will not be, since a session that has moved to a new connection
// ends what it had under way on the old one. An acquisition that is given up
// before it is known what became of its node finds that out in the background.
//
// Nothing left: a node that cannot be deleted at once is deleted in the
// background, and its session takes no new locks until then, so that it ends
// with those that it has; its end removes the node.
//
// # Not guaranteed
//
// Mutual exclusion by the lock alone: see package locks. In particular, the
// monotonic clock stands still while the machine is suspended, and a process
// that is stopped learns of its lost lease when it runs again. Present the
// token.
//
// That a crash frees the lock after one TTL: an election gives every session
// its whole timeout again, and timeouts are rounded up to ticks.
//
// That all locks are lost one by one: those of a Locker share a session, so
// they are lost together. Use several Lockers where that matters.
//
// Numbers after the data of an ensemble was restored from an older copy: they
// are handed out a second time, and no client can tell. The resource can: it
// refuses them, as stale or duplicate, until they pass its mark. Replace the
// issuer, by RotateIssuer or fenceproxy lock rotate-issuer, and have every
// resource adopt the new one (fenceproxy marks adopt). An ensemble that was built
// anew has another issuer by itself.
//
// Sequence numbers for ever: ZooKeeper's counter ends after 2^31 nodes of a
// directory, bells included, and does not wrap (it stays, which gives everybody
// the same place). Whoever gets such a number steps back until the queue is empty,
// and makes the directory anew: once in 2^31 nodes waiters are served in no order.
// With Config.Number Sequence acquisitions fail then, with an error that tells
// what to do: the numbers start from 1 again, as they do whenever somebody removes
// the directory.
//
// # Permissions
//
// Whoever locks needs to read, write, create and delete in the directories, and
// at first to create them. They are made with Config.ACL. A directory that was
// there before keeps its own: one that everybody may delete in lets strangers
// take locks away, so make the root yourself only with the right one.
//
// # What is impossible by construction
//
// Of the known bugs of locks in ZooKeeper, these have no test because the design
// leaves no place for them: a holder that is downgraded and lets a waiting
// writer in (CURATOR-621: there is no downgrade), a watch without a path
// (go-zookeeper #145), and a watch on a node that never comes. That a restored
// ensemble repeats numbers cannot be prevented here, see above. The others are
// named at their tests.
package zklock
