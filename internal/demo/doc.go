// Package demo plays the story that fenceproxy is for, with real processes.
//
// Two workers, each a process of its own, add to one ledger under one lock.
// The first reads the balance and is stopped (SIGSTOP) before it writes, past
// its lease; the second gets the lock, and works; the first is continued
// (SIGCONT), and commits late. Once unfenced: its write lands, and the second
// worker's are lost. Once fenced: its write is refused.
//
//	Run      the story: starts what it needs, directs the workers, counts
//	Work     what a worker does, in its process
//	CleanUp  what a process does that outlives the story, and removes its traces
//
// What happened is counted in SQL from the rows that were committed, not from
// what the workers say.
package demo
