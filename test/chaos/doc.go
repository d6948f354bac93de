// Package chaos tries for as long as it is told to get a stale write past the
// fence.
package chaos
