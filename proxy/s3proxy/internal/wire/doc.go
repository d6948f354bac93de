// Package wire is the bodies of requests and answers on a client's connection,
// which have to make progress.
package wire
