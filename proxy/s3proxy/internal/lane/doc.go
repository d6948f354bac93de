// Package lane sends requests to the store: one that fits into a buffer goes out by
// one write, and its answer is read by whoever waits for it. That takes about half of
// what net/http's Transport does, which has two goroutines for each connection. A long
// body goes out in the pieces that it is made in, and is given up when the store
// answers before it has all of it.
//
// Besides, the body of an answer comes from the connection itself, so that the
// kernel can move a large one to the client without a copy of it (see Body).
package lane
