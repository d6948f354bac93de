// Package handshake brings a client of Postgres from its first byte to
// AuthenticationOk, which the server says.
//
// It relays what the two have to settle, and knows no passwords:
//
//	first packet ┬ SSLRequest ─ TLS with the client ─┐
//	             ├ GSSENCRequest ─ refused ──────────┤ then again
//	             ├ TLS at once (ALPN postgresql) ────┘
//	             ├ CancelRequest ─ relayed, awaited, closed
//	             └ StartupMessage ─ limits ─ connect to the server, perhaps with
//	               TLS ─ StartupMessage, byte for byte ─ authentication
//
// It ends in a [Login], or in what the client is told instead.
package handshake
