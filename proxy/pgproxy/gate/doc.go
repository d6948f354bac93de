// Package gate decides, message by message, what a proxy must add to the stream
// between a client of Postgres and its server so that nothing is written without
// a current token.
//
// It is a state machine and does no I/O: the messages of both sides go in, and
// out comes what to do with each. A check is no statement of its own but a prefix,
// Bind and Close of an empty statement that was prepared before. The server
// converts its parameters in Bind, and so checks, in the transaction which the
// client's own message then goes on with (migrations/0005_proxy.up.sql). That
// costs no round trip, moves no error's position, and ends nothing that the
// client has prepared.
//
// # Where the prefixes go
//
//	outside of blocks   [Check] Query            [Check] Bind Execute … Sync
//	a block             BEGIN … [Present] first statement … [Leave] COMMIT
//	CALL, DO            [Begin Check] Query [Commit]
//	no token, or a      [Enter] in place of Check and of Present: it makes the
//	shared one          transaction read-only, or refuses it
//
// Before PostgreSQL 16 a transaction that may not write can free itself of that, so
// there the ones of a single message run between Begin, Enter and Leave, Commit,
// too (thaw.go).
//
// Check and Leave hold the resource from there to the end of the transaction, so
// that a newer claim waits for it, or comes first and makes them fail. Leave comes
// last: a new holder need not wait for a block in which an old one idles. Present
// holds nothing; it lets an eviction find the block.
//
// A check that fails is the error of the statement that it stands in front of. The
// server then skips what comes up to a Sync, which for a Query the proxy sends
// itself (Then); a COMMIT that fails its check is answered as one that fails for a
// deferred constraint, ERROR and an idle session, so the proxy rolls the block
// back before it says so.
//
// # What must be known before a message goes out
//
// Whether the server is in a block when it comes to a message. The machine knows
// that where all that was sent has been answered, and where whatever the answers
// will be the session will be idle: pipelines of statements outside of blocks do
// not wait. Otherwise it says Wait, and the client's next message stays where it
// is. Within a series of messages up to Sync, BEGIN and COMMIT count when they are
// executed: if one fails, the rest is skipped.
//
// What a prepared statement is. Its name may be given anew by a Parse that fails,
// or is skipped: then it is doubtful, and is refused outside of blocks and checked
// as a COMMIT inside.
//
// Which token the session has. That is for the server to say: prefixes compare the
// setting itself. The machine only watches for what may change it (SET, RESET,
// DISCARD, set_config, and EXECUTE once a call of that was prepared), to have the
// next token claimed in time (Resolve). What it has not seen a check finds (TK004).
//
// # What is refused
//
// What cannot be fenced for certain fails with TK007 and says what to do: COMMIT
// AND CHAIN; a statement behind the end of a transaction in one Query; CREATE INDEX
// CONCURRENTLY and the like, which commit half-way; a change of the token in one
// Query with other statements; a Query behind an Execute without Sync.
//
// # Tests
//
// A table of states and messages; random conversations with a model of a backend,
// in every order of messages and replies (FuzzConversations); and in pgproxy
// random dialogues with real servers, next to the same ones without a proxy.
package gate
