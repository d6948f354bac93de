// Package statement tells from a statement's text what it is to the fence.
//
// It reads no more than is needed for that, and where it cannot tell it says what
// is safe: that a statement needs the fence, or may change the token. What SQL
// hides, in a function or behind EXECUTE, it does not see.
package statement
