// Package load is steady fenced work: holders that acquire, claim, write, renew and
// release, and those that leave without a word.
//
// One process has many hands. Each goes round: a lock of a random service, a claim
// by a random way in (pgstore, pgproxy, s3store, s3proxy), some writes, a release.
// Now and then a session is cut in the middle of a transaction, an upload is left
// without its end, or a lease outlives several renewals. Processes that are killed
// are the business of who starts them.
package load
