// Package http1 serves HTTP/1.1 on the connections of clients.
//
// It does what net/http's server does, and leaves to net/http whatever is not a plain
// request, but is made for a proxy: a request costs no goroutine that waits for the
// client to hang up, and no deadline of its own; a short answer goes out by one write,
// and the kernel moves a long one. What it answers and when it closes are the same, but
// that it tells whoever waits for leave to send no bytes to go on, keeps no connection of
// an HTTP/1.0 client, nor one behind a body whose length was told twice, answers before
// it reads away what is left of a body, and reads on for a while before it closes a
// connection on which one is still coming.
package http1
