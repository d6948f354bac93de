// Package worker is one process that acquires locks, claims, works and releases,
// and believes in its lease whatever happens.
//
// The test program starts itself again as a worker, with Arg as its only argument
// (what a child cannot inherit), a Job on standard input, and nothing else of its
// environment. The worker ends when its input does. It is stopped and killed
// at any point of its work; what it did and was told is in its history.
package worker
