// Package own writes the messages of the proxy's own, which go to the server
// around those of a client.
package own
