// Package httpguard is a net/http middleware that fences a handler: a request
// is admitted or refused by the token in its Fence-Token header, and stays
// inside the fence while the handler runs.
//
//	refuse ◄─ no token, malformed, of another resource, shared and not GET, HEAD or OPTIONS
//	   ▲
//	request ─► Fence.Enter ─► handler ─► Exit
//	              │ refused: stale, duplicate, foreign …
//	              ▼
//	           answer with status, code and mark
//
// A refusal is answered with the status of carrier.Refusals and a body like
//
//	{"code":"FenceTokenStale","reason":"stale token","resource":"orders",
//	 "mark":{"generation":0,"issuer":"k3v9","writer":"34","reader":"0"}}
//
// whose numbers are strings, as they do not fit into those of JavaScript. It
// never tells the mark's holder: who knows it could pose as that holder.
//
// What is not guaranteed. The fence ends when the handler returns: what it
// leaves running, and a connection that it hijacked, are outside. A shared
// token is kept from writing by the method alone: whatever changes the method
// (X-HTTP-Method-Override) belongs in front of this middleware, and a handler
// that writes on GET needs guard.Token.MayWrite.
package httpguard
