// Package pgstore runs PostgreSQL transactions that commit only under a
// current fencing token.
//
// It needs the schema fence in the database (package migrations, or the
// command fenceproxy migrate up) and a role that may claim (--grant ROLE).
//
//	store, err := pgstore.New(pool, pgstore.Config{})
//	lease, err := locker.Acquire(ctx, "orders")
//	err = store.Claim(ctx, lease.Token())      // right away, before anything is read
//	err = store.InTx(ctx, lease.Token(), func(ctx context.Context, tx pgx.Tx) error { … })
//	if errors.Is(err, guard.ErrStale) { … }    // the lock was lost, nothing was written
//
// A token is claimed once: the claim raises the mark of its resource, waits
// for older holders' transactions that have passed their check, and ends what
// older tokens may do. Each transaction then takes these steps, in as many
// network round trips as on bare pgx:
//
//	     message                      the server
//	     ─────────────────────────    ─────────────────────────────────────────
//	     BEGIN, token, presence ───►  the transaction can be found and evicted
//	     statements of fn       ───►
//	┌──  check, COMMIT          ───►  is the epoch of the resource still the
//	│                                 ticket's? it is locked until the end
//	│
//	├─ current ──────────────────────► committed             guard.Applied
//	├─ not current ──────────────────► rolled back           guard.Refused
//	├─ another error, or fn's own ───► rolled back           guard.NotApplied
//	└─ no reply ─────────────────────► either                guard.Unknown
//	                                     └─ TrackCommit asks: Applied, NotApplied
//
// The check comes last. So a new holder does not wait for an old one's open
// transaction, which loses at its end; and what an old one did before, row
// locks included, a claim with Config.Evict can end.
//
// # Guarantees
//
// The invariants I1 to I9 of docs/architecture.md: above all, once Claim has
// returned, nothing is ever committed under an older token through any store
// or to any table under Protect (I1), at every isolation level, through
// savepoints, reconnects and poolers; the current holder is never refused and
// its transactions do not wait for each other (I3); and of every error
// guard.OutcomeOf tells whether the writes happened (I2).
//
// # What differs from bare pgx
//
// What fn gets is a pgx.Tx. It differs in this, and in no more than this (I7):
//
//   - It cannot be ended: Commit, Rollback and texts like COMMIT, ROLLBACK or
//     PREPARE TRANSACTION are refused with guard.ErrUnsupported. So are
//     TxOptions.CommitQuery, and a BeginQuery that does more than begin.
//     That holds for the texts of rewriters and of statements that were prepared
//     by name, which costs one round trip at a name's first use on a connection.
//   - SET TRANSACTION SNAPSHOT is refused: it may be older than the claim.
//   - At REPEATABLE READ and SERIALIZABLE, BEGIN takes the snapshot, so that
//     SET TRANSACTION comes too late: use TxOptions. Not with Config.Lean.
//   - fence.token is set in the transaction, and a shared advisory lock with two
//     keys is held for each resource. Not with Config.Lean.
//   - Under a shared token the transaction is read-only.
//   - Errors are wrapped: use errors.Is and errors.As.
//   - Up to five prepared statements named fenceproxy_… are kept on a connection
//     whose QueryExecMode is CacheStatement, one for each way to begin
//     ("fenceproxy begin…") among them. In every other mode BEGIN and COMMIT go
//     by the simple protocol, and behind a pooler in transaction mode too.
//   - Tracers of pgx do not see BEGIN and COMMIT.
//   - LargeObjects takes one more round trip.
//
// # What is not guaranteed
//
//   - Who reaches around: tx.Conn() is the bare connection. What ends the
//     transaction through it is noticed, and reported as unknown; what ends it
//     and begins another is not.
//   - Reads: a stale holder reads what it likes until its transaction ends. For
//     work outside of the database there is Enter, and what it says.
//   - Writes that need no transaction, like VACUUM; sequences, whose nextval is
//     not undone; and everything else that PostgreSQL does not roll back.
//   - Databases that lost the claim: a standby that was promoted without the last
//     commits, a backup that was restored. Claim again there.
//   - A retry: nothing is ever run twice, whatever the error.
package pgstore
