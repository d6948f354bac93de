// Package soak has the test of what grows when fenced work goes on for hours.
//
// Real servers and two fenceproxy processes serve package load: one process of it
// that goes on, this one, and others that are killed. All the while package gauge
// reads what could grow, and at the end package trend tells what does. What an
// operator has to do anyway is done here too: uploads that the killed have left are
// aborted, etcd is compacted.
//
//	make soak DURATION=2h SEED=1
//
// In `make test` it goes on for some seconds, too short to tell what grows, but long
// enough to see that all of it works.
package soak
