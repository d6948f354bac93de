// Package localserver runs programs that live no longer than this process:
// the servers that the demo starts for itself, and its workers.
//
// A program that was started here is told to end when this process dies,
// however it dies (Linux; elsewhere only an orderly end is covered). Servers
// listen on loopback alone, on a free port, with their data in a folder that
// the caller names and removes.
package localserver
