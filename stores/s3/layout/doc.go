// Package layout is what fenced objects look like, byte by byte, and what may
// be done to a key in which state.
//
// It does no I/O: a [State] is what somebody has seen of a key, a [Grant] a
// claimed token, and [Grant.Decide] says which request may be sent, or why
// none. [Grant.Settle] says what became of a request from its reply, or from
// none, and from another look at the key. What calls it are the store, the
// proxy, and the model in this package's tests, which tries every order in
// which requests may arrive.
//
//	absent ──── first write ────► live ◄──── write ────┐
//	  │                             │ ▲                │
//	  └──── first delete ────┐      │ └── write ──┐    └── live
//	                         ▼      ▼             │
//	                        tombstone ────────────┘
//
// Every arrow is one request that names the state it starts from: If-Match of
// its ETag, or If-None-Match: * for absent. No state comes back: a header has
// 128 random bits in it, so no two writes have the same bytes and none the
// same ETag, and a key is never absent again. So a request that arrives late
// finds its state gone and does nothing.
package layout
