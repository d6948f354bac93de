// Package pgproxy is the proxy that fences any client of Postgres.
//
// Each client has a server connection of its own, from its first message to its
// last. Up to AuthenticationOk the proxy relays what the two have to settle
// (package handshake). From there on the session relays what they say, and sees
// to it that nothing is written without a current token (package relay, and
// package gate, which decides what a message needs). This package is the
// [Server] around both: it takes clients, counts, and lets them go.
//
// # What the proxy does not do
//
// It knows no passwords: the server authenticates its users, by any method that
// is an exchange of messages, and refuses them in its own words. What a server
// tells from the connection it tells of the proxy's: the rules in pg_hba.conf see
// its address, and the method cert its certificate (TLS.VerifyUser is for that).
// It makes no keys for cancel requests, so several proxies in front of one server
// may stand behind one address.
//
// # TLS on both sides, and SCRAM
//
// TLS with the client ends at the proxy. A client that can bind its password
// (SCRAM) to the TLS that it sees, as libpq and pgx can, says so in what it signs,
// and a server that can too takes it for an attack if the binding has got lost.
// So with TLS on both sides, and SCRAM, one of these must be:
//
//   - The proxy has the server's own certificate and key, and TLSMode is
//     TLSRequire or above. Then the binding holds, channel_binding=require
//     included.
//   - The proxy reaches the server over a unix socket, or with TLSDisable, which
//     is fine on the same machine or in a tunnel.
//   - TLSMode is TLSPrefer: for such a client the proxy goes without TLS to the
//     server, if the server lets it.
//   - The clients connect with channel_binding=disable.
//
// Otherwise the client gets FATAL 28000, and the hint to do one of them. Clients
// that come without TLS, or authenticate in other ways, are not concerned.
package pgproxy
