// Package session is the half of a lock service's sessions that lives in this
// process: many leases share a session, and it ends by its own clock.
//
//	Pool   the sessions of a locker: opens one when it is needed, closes all
//	Life   one session: its users, its deadline, when to renew it
//	Lease  one acquisition on it: its token, its end, its release
//
// What is sent to the service is not here: a Session embeds a *Life and gives
// Serve, a lease embeds a *Lease and gives Release.
package session
