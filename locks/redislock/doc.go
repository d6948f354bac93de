// Package redislock is locks in Redis: exclusive and shared, first come first
// served, with numbers that rise even if Redis forgets everything.
//
// # The keys
//
// A lock is four keys, whose hash tag is its resource (locks.Segment), so that
// they are in one slot of a Cluster. One script (lock.lua) does all that ever
// happens to them; here a writer holds, a reader and a writer wait:
//
//	fence:locks:{orders}:number   "1795968000000001"   granted last
//	fence:locks:{orders}:held     x7QZ…:LKR… → 1795968000000001
//	fence:locks:{orders}:queue    1 sB5D…:LKR…   2 x3RW…:M4T…
//	fence:locks:{orders}:until    x7QZ…:LKR… 1795968013204   until when each of
//	                              sB5D…:LKR… 1795968013377   them is alive, in ms
//	                              x3RW…:M4T… 1795968014051   by the clock of Redis
//
// x is exclusive, s is shared; then comes the token's holder, and behind the
// colon the Locker, which listens on a channel of its own:
//
//	Acquire            acquire ──▶ granted 41                       one request
//	somebody waits     acquire ──▶ waiting      ◀── message "granted 42"
//	Release            leave   ──▶ grants to the next in the queue, and tells them
//	each third of TTL  keep    ──▶ granted 41, waiting or gone
//
// The script that ends a lock grants it to the next one: to a writer, or to all
// readers up to the next writer. So a grant is two requests, to acquire and to
// release, whether one waits for it or not and however many wait, and a
// handover takes half a round trip of each side. Messages of Redis may be lost:
// a waiter also asks by itself, every FallbackPoll, and the first one in the
// queue when the time of a holder is over. Leases of one Locker that ask at about
// the same time, held or waiting, do so in one pipeline of up to 100, and each by
// itself if that fails: 1,000 held locks are two or three requests a second.
//
// All keys end by themselves: those of holders and waiters with the last of
// them, the number a week after the time that it stands for.
//
// # Numbers
//
// The number of a grant is max(last number, floor, time of Redis in µs) + 1,
// made before the lock is. It is a string on all of its way, up to 2^63-1, since
// the numbers of a script are doubles, which repeat above 2^53. When the last
// number is lost, by FLUSHALL, a restart without persistence or the failover to a
// replica that lagged behind, time has passed since, and the next one is above it
// all the same. That is why the issuer of the numbers is a name from the Config,
// and not an id that is kept in Redis: it would be lost with the number.
//
// # Guarantees
//
// Order: numbers rise from grant to grant, for all pairs, and also over lost
// data, as long as the clock of Redis is not set back (by more than has passed
// since the last grant) at the same time as the number is lost. The clocks of
// the servers that replace each other count as one.
//
// Local deadline: Lost is closed at the latest 19/20 of the TTL after the last
// request that was answered was sent, by this process's monotonic clock,
// whether Redis answers or not. A lock that Redis has forgotten is noticed by the
// next renewal, within a third of the TTL.
//
// Lost replies (I8): whoever acquires is in the keys under an id that is used
// once. A request that is repeated finds itself there, and gets the same number.
// The client's own retries are off for it, so that it is known which requests
// have not been answered: when such an acquisition is given up, or released, a
// key "grave" is left for one TTL, which makes its request fail whenever it
// arrives. A release that is repeated after a lost reply is a success.
//
// Waiting: nobody overtakes, also no reader a waiting writer. A waiter that
// crashed holds up those behind it for the rest of its TTL at most; a reader
// that crashed, no reader and the next writer for the same time.
//
// # Not guaranteed
//
// Mutual exclusion, and in Redis less than elsewhere: its replication is
// asynchronous, so a failover may forget a lock, and somebody else gets it at
// once while the old holder learns of that with its next renewal. Their numbers
// differ. Config.Replicas makes it rarer. Redis counts time by the system clock:
// one that is set forward ends locks early, one that is set back makes those of
// crashed holders last longer.
//
// Numbers after the clock was set back and the number was lost, or at two
// primaries at once: they may repeat or be lower than before. The resource
// refuses those, as duplicate or stale: never two holders with one number. Until
// the clock has caught up it also refuses honest holders, unless they ask for
// more: AcquireAbove the mark that refused, which locks.Heal does by itself.
//
// A place in the queue that survives a failover: waiters whose place is lost get
// locks.ErrLost, and may come again.
//
// # What Redis it takes
//
// Redis 6 or later, or what behaves like it; tests run on 7.0. A single server, a
// primary found by Sentinel, or a Cluster, but no goredis.Ring. Not one that may
// evict keys: maxmemory-policy must be noeviction, which is looked up before the
// first lock and after each restart. With full memory nothing new can be acquired;
// what is held or waited for is renewed, released and passed on as ever. A user
// needs, beside its password,
//
//	~fence:locks:* &fence:locks:* +@read +@write +@scripting +time +publish +subscribe +ping +info
//
// of which +info can be spared with Config.SkipPolicyCheck, and messages at the
// price of waiting for the next FallbackPoll.
//
// # What is impossible by construction
//
// Of the known bugs of locks in Redis, these have no test because the design
// leaves no place for them: a clock of the client that decides when a lock ends
// (all times are of Redis, or local and monotonic), a renewal that brings a
// released lock back (it never creates), a waiting that gives up after so many
// tries. The others are named at their tests.
package redislock
