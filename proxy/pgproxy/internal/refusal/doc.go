// Package refusal is what the proxy itself says to a client in the server's place.
package refusal
