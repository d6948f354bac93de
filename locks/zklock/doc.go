// Package zklock is locks in ZooKeeper: exclusive and shared, first come first
// served, with the czxid of a node as the fencing token's number.
package zklock
