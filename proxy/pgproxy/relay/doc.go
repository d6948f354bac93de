// Package relay passes on what a client of Postgres and its server say once the
// client is authenticated, and sees to it that nothing is written without a
// current token.
//
// A session is two goroutines: up reads the client's messages, asks package gate
// what each needs, and writes it with what goes around it (package own); down
// reads the server's, and drops the replies to what the client does not know of.
// What is short and simple both do as steps on a loop (package poll), where no
// goroutine has to be woken; what a step cannot finish it leaves to its goroutine.
// Before the first message, and whenever the session's token has changed, resolve
// finds out which token it is, and claims it if nobody has.
package relay
