// Package refusal is what the proxy says to a client of S3 whose request it does
// not carry out, or could not.
package refusal
