// Package stream reads the messages of one connection, and writes to another one
// what two goroutines have for it, without copying what is merely passed on.
package stream
