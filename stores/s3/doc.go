// Package s3store reads and writes S3 objects under fencing tokens, so that
// nothing a stale holder sends overwrites the work of a newer one, however late
// it arrives.
//
// It works on every store that compares and swaps on PUT and on
// CompleteMultipartUpload; `fenceproxy doctor s3` tells whether one does.
//
//	store, err := s3store.New(client, s3store.Config{Bucket: "app"})
//	lease, err := locker.Acquire(ctx, "orders")
//	err = store.Claim(ctx, lease.Token())      // right away, before anything is read
//	info, err := store.Put(ctx, lease.Token(), "orders/1.json", body, size, s3store.PutOptions{})
//	if errors.Is(err, guard.ErrStale) { … }    // the lock was lost, nothing was written
//
// Why a plain If-Match is no fence: the ETag of ordinary S3 is a hash of the
// bytes, and an absent key has none. When bytes recur, or a key is deleted, a
// request that an old holder sent minutes ago finds the state again that it
// names, and is carried out. So an object is stored behind a header of 64 bytes
// with the writer's number and 128 random bits in it, and a delete leaves a
// tombstone: no state of a key ever comes back.
//
//	          first write                   overwrite
//	absent ─────────────────► live, 33 ─────────────────► live, 34 ──┐
//	  │                           ▲                         │  ▲     │ write
//	  │ first delete              │ write            delete │  └─────┘
//	  └──────────────────────► tombstone ◄──────────────────┘
//
//	every arrow: one PUT or CompleteMultipartUpload that names the state it
//	starts from (If-Match: its ETag, or If-None-Match: *) and was decided on by
//	the number in it. Package layout decides; docs/s3-layout.md has the bytes.
//
// # Uploads that several processes share
//
// Put uploads a large payload in parts by itself. Where the parts come from
// outside, as to a proxy, CreateUpload, UploadPart and CompleteUpload are the same in
// pieces, and each may run in another process with the same Config.UploadKey:
//
//	CreateUpload ──► id, with the header in it ──► UploadPart 1: header + payload
//	                                               UploadPart n: payload
//	                                               CompleteUpload: the write
//
// The id carries the header that the object will have, under an HMAC. So whoever
// uploads part 1, and however often, puts the same nonce in front, and whoever
// completes the upload recognises it: a completion whose reply was lost is
// settled as any write's, and one that is repeated elsewhere succeeds. An upload
// becomes an object once at most, so no nonce comes back. Parts and the
// completion need the very token of the upload; the completion is decided by
// what is at the key then.
//
// # What a write becomes
//
//	reply                  another look at the key        outcome
//	─────────────────────  ─────────────────────────────  ─────────────────────────
//	200                                                   applied
//	412, 409, 4xx, or the  a newer number                 guard.ErrStale, refused
//	body was not read      the caller's condition false   ErrPrecondition, not applied
//	to its end             a write of the same token      sent again for the new state,
//	                                                      or ErrConflict, not applied
//	                       an older number                ErrOlderWrite, not applied
//	none, or 5xx           my nonce                       applied
//	                       unchanged                      the same sent again: at most one
//	                                                      of the two is carried out
//	                       an older number                ErrOlderWrite, not applied
//	                       anything else                  unknown
//	404 NoSuchUpload       my nonce                       applied
//	to a CompleteUpload    absent, or an older number     NoSuchUpload, not applied
//	                       anything else                  NoSuchUpload, unknown
//
// # Guarantees
//
// I1 key by key: once a write or delete of a key under number n has been
// carried out, no write, upload, delete or copy under a lower one is ever
// carried out there, whenever it was sent and whenever it arrives. I2: of every
// error guard.OutcomeOf tells whether the object was written. I3: the current
// holder is never refused, however many write at once; a compare-and-swap that
// it loses to itself is tried again or reported as ErrConflict, never as stale.
//
// # What is not guaranteed
//
//   - Keys that the new holder has not written. A claim alone closes no key: a
//     request of the old holder that is under way is still carried out at a key
//     nobody has touched since. A claim does end the old holder's next start:
//     the mark object of the resource refuses it.
//   - A shared token's claim closes no key at all, for it writes none. Older
//     writers are refused when they claim again, or use a store that has seen
//     the claim.
//   - Reads: a stale holder's are refused when they meet a newer number, as best
//     effort. A read-modify-write must name what it read (PutOptions.IfMatch, the
//     ETag of Object.Info): an older holder's write may land in between (I9).
//   - Who goes around: a bare PUT or DELETE, a lifecycle rule that expires
//     objects, a replication into the bucket. docs/guarantees.md has the policy
//     that keeps them out.
//   - Versions: Get sees the current one only.
//   - A server that keeps what it has got of a payload when the connection breaks,
//     as versitygw does of one that is not signed; and minio-go signs none with
//     TLS. Up to 1 MiB they are signed all the same, and behind a larger one comes a
//     checksum. If the server does not take that, a payload whose reader failed
//     or whose connection broke may be there in part: its outcome is unknown, and
//     the error says how much was kept.
//   - A proxy between that sends a PUT or a Complete again by itself, when its
//     connection to the store broke. Nothing is carried out twice; but the 412
//     that answers the second is taken for the answer to the write. If another
//     write under the same token, or a newer one, has followed by then, what
//     was carried out is reported as not applied. Switch that off there.
//
// # What differs from bare minio-go
//
//   - PutOptions and GetOptions have what can be fenced. Object lock, SSE-C and
//     versions are not among it.
//   - SetTags, like Copy, writes the object again: S3's own names no state.
//   - Copy keeps tags if the server tells how many there are, as S3 does.
//   - Objects whose Expires is no date, as many on the web have it, are read if the
//     client has the Transport of this package; minio-go alone fails on them.
//   - ETags and checksums are those of the framed object. ObjectInfo has no
//     checksums, and its ETag is never the MD5 of the payload.
//   - Keys below .fence/ are the fence's own.
//   - A common prefix is left out if only tombstones are under it, but not if they
//     are more than 1000.
//   - A store that keeps objects as files (versitygw) takes a tombstone for a file:
//     when "a" was deleted, "a/b" is refused there, as it is while "a" exists.
//   - An upload has a part 1, and that has 64 bytes less room.
//   - A payload of unknown size may have at most 10,000 parts of Config.PartSize.
package s3store
