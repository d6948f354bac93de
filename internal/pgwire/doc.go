// Package pgwire writes the messages of PostgreSQL's wire protocol that a proxy
// adds to a stream, and reads the few fields it looks at.
//
// It appends to buffers and cuts slices, and allocates nothing by itself. Source:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
package pgwire
