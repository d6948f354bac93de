// Package history records what each writer did and what it was told of it.
//
// Each process appends to a file of its own (Recorder): an Op once before the
// request is sent and once more when its end is known. What was written survives
// a kill -9 of the process, so an Op without an end is one whose process died in
// the middle, and whose outcome is unknown. Times are those of the machine's
// monotonic clock, which all processes share and nobody sets.
package history
