// Package migrations is the rule of fencing tokens in SQL, as numbered files
// that any runner can run, and a runner for them.
//
// The files are plain SQL, each with its way back, and may be run again:
//
//	psql --single-transaction -v ON_ERROR_STOP=1 -f 0001_marks.up.sql
//
// They install the schema "fence" into PostgreSQL 14–18: what a resource
// remembers (fence.marks), what a new holder calls first (fence.claim), what
// goes with every write (fence.check), triggers that make a table itself refuse
// stale writes (fence.protect), and domains whose constraints are the check, for
// the proxy (fence.holds_token and its like). docs/architecture.md tells how they
// work together.
package migrations
